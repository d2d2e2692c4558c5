/** Starts the page: takes the one-time code out of the address, then draws. */
import { mount } from "svelte";
import App from "./App.svelte";
import { handleKey } from "./keys.ts";
import { store } from "./store/store.svelte.ts";
import "./style.css";

/** The code of a link, which must not stay in the address or the history: at once, before anything can fail. */
function takeCode(): string | undefined {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  if (code !== undefined) history.replaceState(null, "", "#/");
  return code;
}

async function begin(): Promise<void> {
  const code = takeCode();
  const problem = code === undefined ? null : await store.logIn(code);
  if (problem !== null) store.sayLoginProblem(problem);
  if (code === undefined || problem !== null) await store.begin();
}

/** A link that is opened where the page is already changes the address and loads nothing. */
async function followLink(): Promise<void> {
  const code = takeCode();
  const problem = code === undefined ? null : await store.logIn(code);
  if (problem !== null) store.sayLoginProblem(problem);
}

window.addEventListener("hashchange", () => void followLink());
window.addEventListener("keydown", handleKey, { capture: true });
const target = document.getElementById("app");
if (target) mount(App, { target });
await begin();
