/** Starts the page: takes the one-time code out of the address, then draws. */
import { mount } from "svelte";
import { api, asRefusal } from "./api.ts";
import App from "./App.svelte";
import { handleKey } from "./keys.ts";
import { store } from "./store.svelte.ts";
import "./style.css";

async function logInByAddress(): Promise<void> {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  // At once, before anything can fail: the code must not stay in the address or the history.
  history.replaceState(null, "", "#/");
  try {
    await api.login(code);
  } catch (error) {
    store.startProblem = asRefusal(error).message;
  }
}

window.addEventListener("keydown", handleKey, { capture: true });
const target = document.getElementById("app");
if (target) mount(App, { target });
await logInByAddress();
await store.begin();
