/** Starts the page: takes the one-time code out of the address, then draws. */
import { mount } from "svelte";
import App from "./App.svelte";
import { DoorError, enter } from "./door.ts";
import { handleKey } from "./keys.ts";
import { store } from "./store.svelte.ts";
import "./style.css";

async function logInByAddress(): Promise<void> {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  // At once, before anything can fail: the code must not stay in the address or the history.
  history.replaceState(null, "", "#/");
  try {
    await enter(code);
  } catch (error) {
    store.startProblem = error instanceof DoorError ? error.message : `The page failed: ${String(error)}`;
  }
}

window.addEventListener("keydown", handleKey, { capture: true });
const target = document.getElementById("app");
if (target) mount(App, { target });
await logInByAddress();
await store.begin();
