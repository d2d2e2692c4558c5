/** All keys of the page: one table, shown by `?` and obeyed here. */
import { flushSync } from "svelte";
import { actions } from "./actions.svelte.ts";
import { dialogs } from "./dialog/dialogs.svelte.ts";
import { navigation } from "./navigation.svelte.ts";
import { store } from "./store/store.svelte.ts";

interface Key {
  keys: string;
  does: string;
  /** Also while typing into a terminal or a field. */
  anywhere: boolean;
  test(event: KeyboardEvent): boolean;
  run(event: KeyboardEvent): void;
}

const alt = (code: string) => (event: KeyboardEvent) =>
  event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.code === code;

export function focusSearch(): void {
  const field = document.getElementById("search");
  if (field instanceof HTMLInputElement) {
    if (getComputedStyle(field).visibility === "hidden" || field.offsetParent === null)
      flushSync(() => navigation.go({ view: "start" }));
    // At once: what is typed next would be selected, or go elsewhere.
    field.focus();
    field.select();
  }
}

export const KEYS: Key[] = [
  { keys: "/", does: "Search sessions", anywhere: false, test: (event) => plain(event, "/"), run: focusSearch },
  {
    keys: "Alt+/",
    does: "Search sessions, also from a terminal",
    anywhere: true,
    test: alt("Slash"),
    run: focusSearch,
  },
  {
    keys: "Alt+1 … Alt+9",
    does: "Go to a tab",
    anywhere: true,
    test: (event) => /^Digit[1-9]$/.test(event.code) && alt(event.code)(event),
    run: (event) => {
      const tab = store.tabList[Number(event.code.slice(5)) - 1];
      if (tab) actions.goToTab(tab);
    },
  },
  { keys: "Alt+T", does: "New tab", anywhere: true, test: alt("KeyT"), run: () => dialogs.newTab() },
  { keys: "Alt+W", does: "Close the tab; the agent lives on", anywhere: true, test: alt("KeyW"), run: closeShown },
  {
    keys: "Alt+J",
    does: "Go to the next session that needs you",
    anywhere: true,
    test: alt("KeyJ"),
    run: () => actions.nextThatNeedsMe(),
  },
  {
    keys: "Alt+Enter",
    does: "Do what the panel offers first: resume it, look again …",
    anywhere: true,
    test: (event) => alt("Enter")(event) && offered() !== null,
    run: () => offered()?.click(),
  },
  {
    keys: "Ctrl+Shift+F",
    does: "Find in the terminal",
    anywhere: true,
    test: (event) => event.ctrlKey && event.shiftKey && event.code === "KeyF",
    run: () => window.dispatchEvent(new Event("corral-find")),
  },
  {
    keys: "Ctrl+Shift+E",
    does: "How do you know?",
    anywhere: true,
    test: (event) => event.ctrlKey && event.shiftKey && event.code === "KeyE",
    run: showEvidence,
  },
  {
    keys: "?",
    does: "All keys",
    anywhere: false,
    test: (event) => plain(event, "?"),
    run: () => dialogs.keys(),
  },
  {
    keys: "Alt+?",
    does: "All keys, also from a terminal",
    anywhere: true,
    test: (event) => event.altKey && event.shiftKey && event.code === "Slash",
    run: () => dialogs.keys(),
  },
];

/** Keys that the parts handle themselves, for the list. */
export const MORE_KEYS: { keys: string; does: string }[] = [
  { keys: "↑ ↓", does: "In the sidebar: from session to session" },
  { keys: "Enter", does: "Go there" },
  { keys: "Ctrl+Shift+C", does: "In a terminal: copy what is selected" },
  { keys: "Ctrl+Shift+V", does: "In a terminal: paste" },
  { keys: "Esc", does: "Close a dialog, or clear the search" },
];

export function handleKey(event: KeyboardEvent): void {
  if (store.phase !== "ready" || event.isComposing) return;
  const typing =
    event.target instanceof HTMLElement && event.target.closest("input, textarea, select, dialog") !== null;
  const key = KEYS.find((one) => (one.anywhere || !typing) && one.test(event));
  if (!key || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  event.stopPropagation();
  key.run(event);
}

/** The first thing that a panel in the place of the terminal offers. */
function offered(): HTMLButtonElement | null {
  return document.querySelector<HTMLButtonElement>("main .panel .button.main:not(:disabled)");
}

function plain(event: KeyboardEvent, key: string): boolean {
  return event.key === key && !event.altKey && !event.ctrlKey && !event.metaKey;
}

function closeShown(): void {
  const place = navigation.place;
  const tab = place.view === "tab" ? store.tabs.get(place.tab) : undefined;
  if (tab) void actions.closeTab(tab);
}

function showEvidence(): void {
  const place = navigation.place;
  const ref = place.view === "session" ? place.ref : place.view === "tab" ? store.tabs.get(place.tab)?.ref : null;
  if (ref) dialogs.evidence(ref);
}
