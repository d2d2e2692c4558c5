/** What a person can ask for: each verb once, whether it comes from a click, a key or a dialog. */
import { api, asRefusal, type StartChoices } from "./api.ts";
import { titleOf } from "./words.ts";
import { navigation } from "./navigation.svelte.ts";
import { store } from "./store.svelte.ts";
import type { Refusal, Session, Tab } from "./types.ts";

/** An agent that the person may want to end. */
export interface Ending {
  name: string;
  pid: number;
  session: Session | undefined;
  tab: Tab | undefined;
}

class Actions {
  /** What was asked for and not done, by tab id or session ref: shown where the terminal would be. */
  refusals = $state<Record<string, Refusal>>({});
  /** Tabs and sessions that are being opened now. */
  opening = $state<Record<string, boolean>>({});
  dialog = $state<"new-tab" | "keys" | null>(null);
  drawer = $state<string | null>(null);
  ending = $state.raw<Ending | null>(null);
  /** The size of the terminal shown last: a good guess for the next one. */
  size = { columns: 120, rows: 40 };

  /** Go to a session: its tab if it has one; a lost one is shown first, with what was left; else it is opened. */
  goToSession(session: Session): void {
    const tab = store.tabOf(session);
    if (tab) return this.goToTab(tab);
    navigation.go({ view: "session", ref: session.ref });
    if (session.state !== "orphaned") void this.openSession(session.ref);
  }

  /** Show a tab, and bring it back if its terminal is gone. */
  goToTab(tab: Tab): void {
    navigation.go({ view: "tab", tab: tab.tab });
    if (tab.state === "gone") void this.openTab(tab.tab);
  }

  async openSession(ref: string, choices: { anyway?: boolean; trust?: boolean } = {}): Promise<void> {
    await this.#open(ref, async () => {
      const { tab } = await api.open(ref, { ...choices, ...this.size });
      await this.#showTab(tab, { view: "session", ref });
    });
  }

  async openTab(tab: string, choices: { anyway?: boolean; trust?: boolean } = {}): Promise<void> {
    await this.#open(tab, async () => {
      const opened = await api.openTab(tab, { ...choices, ...this.size });
      await this.#showTab(opened.tab ?? tab, { view: "tab", tab });
    });
  }

  /** Start an agent in a new tab. Returns what stands in the way, or null. */
  async start(choices: Omit<StartChoices, "columns" | "rows">): Promise<Refusal | null> {
    try {
      const { tab } = await api.start({ ...choices, ...this.size });
      await this.#showTab(tab, null);
      return null;
    } catch (error) {
      return asRefusal(error);
    }
  }

  async closeTab(tab: Tab): Promise<void> {
    const list = store.tabList;
    const next = list[list.indexOf(tab) + 1] ?? list[list.indexOf(tab) - 1];
    const done = await this.#try(() => api.closeTab(tab.tab));
    if (!done) return;
    store.tabs.delete(tab.tab);
    if (navigation.place.view === "tab" && navigation.place.tab === tab.tab) {
      navigation.go(next ? { view: "tab", tab: next.tab } : { view: "start" }, { replace: true });
    }
    const session = store.sessionOf(tab);
    const lives = tab.state === "running" || tab.state === "starting";
    if (lives)
      store.notify(
        "info",
        `Closed. ${session ? titleOf(session) : (tab.provider ?? "It")} lives on: it is in the sidebar.`,
      );
  }

  async restoreAll(): Promise<void> {
    await this.#try(async () => {
      const { queued } = await api.restoreAll();
      if (queued) store.restore = { done: 0, total: queued, failed: 0 };
      else store.notify("info", "Nothing to restore: every tab has its terminal.");
    });
  }

  async dismiss(session: Session, dismissed: boolean): Promise<void> {
    if (!(await this.#try(() => api.dismiss(session.ref, dismissed)))) return;
    store.sessions.set(session.ref, { ...session, dismissed });
    if (dismissed)
      store.notify("info", "Dismissed. It is under idle.", {
        label: "Undo",
        run: () => void this.dismiss(session, false),
      });
  }

  async end(session: Session | undefined, tab: Tab | undefined): Promise<void> {
    const asked = await this.#try(() =>
      tab ? api.endTab(tab.tab, tab.ref) : session ? api.end(session.ref) : Promise.resolve(),
    );
    if (asked) store.notify("info", "Asked to end.");
  }

  async moveTab(tab: Tab, by: number): Promise<void> {
    const list = store.tabList;
    const to = Math.max(0, Math.min(list.length - 1, list.indexOf(tab) + by));
    await this.#try(() => api.moveTab(tab.tab, to));
  }

  async installHooks(provider: string): Promise<boolean> {
    const done = await this.#try(() => api.installHooks(provider));
    if (done) store.providers = await api.providers().catch(() => store.providers);
    return done;
  }

  /** The next session that needs the person, after the one that is shown. */
  nextThatNeedsMe(): void {
    const list = store.needing;
    if (!list.length) return store.notify("info", "Nobody needs you now.");
    const place = navigation.place;
    const shown = place.view === "session" ? place.ref : place.view === "tab" ? store.tabs.get(place.tab)?.ref : null;
    const next = list[(list.findIndex((session) => session.ref === shown) + 1) % list.length];
    if (next) this.goToSession(next);
  }

  copy(text: string, what: string): void {
    navigator.clipboard.writeText(text).then(
      () => store.notify("info", `Copied ${what}.`),
      () => store.notify("problem", `The browser did not let ${what} be copied.`),
    );
  }

  async #open(key: string, open: () => Promise<void>): Promise<void> {
    if (this.opening[key]) return;
    this.opening[key] = true;
    delete this.refusals[key];
    try {
      await open();
    } catch (error) {
      this.refusals[key] = asRefusal(error);
    } finally {
      delete this.opening[key];
    }
  }

  /** Go to a tab that has just come to be; its event may be on the way still. */
  async #showTab(tab: string, onlyFrom: typeof navigation.place | null): Promise<void> {
    if (!store.tabs.has(tab)) {
      const { tabs } = await api.tabs();
      for (const one of tabs) if (one.tab === tab) store.tabs.set(tab, one);
    }
    const here = JSON.stringify(navigation.place);
    if (onlyFrom === null || here === JSON.stringify(onlyFrom))
      navigation.go({ view: "tab", tab }, { replace: onlyFrom !== null });
  }

  async #try(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      store.notify("problem", asRefusal(error).message);
      return false;
    }
  }
}

export const actions = new Actions();
