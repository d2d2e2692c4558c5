/** What a person can ask for: each verb once, whether it comes from a click, a key or a dialog. */
import { api, asRefusal } from "./server/api.ts";
import { navigation } from "./navigation.svelte.ts";
import { clock } from "./format.ts";
import type { Reading } from "./store/reading.ts";
import { store } from "./store/store.svelte.ts";
import type { Refusal } from "./refusal/refusal.ts";
import type { NewTab, OpenSession, OpenTab, ProcessPlace, Session, Tab } from "./types.ts";
import { isDoubted, titleOf } from "./session/words.ts";

/** What a person agrees to when a tab is opened. */
export type Agreed = Omit<OpenTab, "columns" | "rows">;

/** Where the processes of a session were, at a time of day; `said` when a person asked to look. */
export interface Look {
  processes: ProcessPlace[];
  at: string;
  said: boolean;
}

interface Noted {
  refusal: Refusal;
  /** How the session stood when it was said. */
  stand: string;
}

class Actions {
  /** What was asked for and not done, by tab id or session ref: shown where the terminal would be. */
  #refusals = $state<Record<string, Noted>>({});
  /** What the last look at a session found, by ref. */
  looks = $state<Record<string, Look>>({});
  looking = $state<Record<string, boolean>>({});
  /** Tabs and sessions that are being opened now. */
  opening = $state<Record<string, boolean>>({});
  #agreed: Record<string, Agreed> = {};
  #size = { columns: 120, rows: 40 };

  /** The size of the terminal shown last: a good guess for the next one. */
  keepSize(size: { columns: number; rows: number }): void {
    this.#size = size;
  }

  /** Go to a session: its tab if it has one; one that runs is shown where it runs. Starts nothing. */
  goToSession(session: Session): void {
    const tab = store.tabOf(session);
    if (tab) return this.goToTab(tab);
    navigation.go({ view: "session", ref: session.ref });
    if (session.state === "live" || session.state === "pending")
      void this.openSession(session.ref, { attach_only: true });
  }

  /** Show a tab, or what became of it. Starts nothing. */
  goToTab(tab: Tab): void {
    navigation.go({ view: "tab", tab: tab.tab });
  }

  /** Why what was asked for last was not done; nothing once what it was about has changed. */
  refusalOf(key: string, session: Session | undefined): Refusal | null {
    const noted = this.#refusals[key];
    if (!noted) return null;
    const { reason } = noted.refusal;
    if (reason === "maybe_open" && session && isDoubted(session)) return noted.refusal;
    const stale = ABOUT_PROCESSES.has(reason) ? noted.stand !== standOf(session) : session?.state === "live";
    return stale ? null : noted.refusal;
  }

  /** Have the server look at a session afresh, and say where the processes are that may have it. */
  async look(ref: string, { said = false } = {}): Promise<void> {
    if (this.looking[ref]) return;
    this.looking[ref] = true;
    try {
      // How it stands comes as an event, if it stands otherwise than was known: an answer may be older than that.
      const { processes } = await api.look(ref);
      const now = Date.now() / 1000;
      this.looks[ref] = { processes, at: clock(now, now, { seconds: true }), said };
    } catch (error) {
      if (said) store.notify("problem", asRefusal(error).message);
    } finally {
      delete this.looking[ref];
    }
  }

  async openSession(
    ref: string,
    { attach_only = false, ...choices }: Agreed & Pick<OpenSession, "attach_only"> = {},
  ): Promise<void> {
    await this.#open(
      ref,
      () => store.sessions.get(ref),
      async () => {
        const { tab } = await api.open(ref, { ...this.#agree(ref, choices), attach_only, ...this.#size });
        await this.#showTab(tab, { view: "session", ref });
      },
    );
  }

  async openTab(tab: string, choices: Agreed = {}): Promise<void> {
    await this.#open(
      tab,
      () => store.sessionOf(store.tabs.get(tab)),
      async () => {
        const opened = await api.openTab(tab, { ...this.#agree(tab, choices), ...this.#size });
        await this.#showTab(opened.tab, { view: "tab", tab });
      },
    );
  }

  /** Start an agent in a new tab. Returns what stands in the way, or null. */
  async start(choices: Omit<NewTab, "columns" | "rows">): Promise<Refusal | null> {
    try {
      const { tab } = await api.start({ ...choices, ...this.#size });
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
    store.dropTab(tab.tab);
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
      if (queued) store.takeProgress({ done: 0, total: queued, failed: 0 });
      else store.notify("info", "Nothing to restore: every tab has its terminal.");
    });
  }

  async dismiss(session: Session, dismissed: boolean): Promise<void> {
    if (!(await this.#try(() => api.dismiss(session.ref, dismissed)))) return;
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
    if (done)
      await api.providers().then(
        (providers) => store.takeProviders(providers),
        () => {},
      );
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
      () => store.notify("problem", `The browser refused to copy ${what}.`),
    );
  }

  /** One thing is asked after the other: what was agreed to before stays so, until it is opened afresh. */
  #agree(key: string, choices: Agreed): Agreed {
    const afresh = !Object.keys(choices).length;
    return (this.#agreed[key] = afresh ? {} : { ...this.#agreed[key], ...choices });
  }

  async #open(key: string, session: () => Session | undefined, open: () => Promise<void>): Promise<void> {
    if (this.opening[key]) return;
    this.opening[key] = true;
    delete this.#refusals[key];
    try {
      await open();
    } catch (error) {
      const refusal = asRefusal(error);
      // It had ended before it could be shown: then its own state says all.
      if (refusal.reason === "not_open") return;
      this.#refusals[key] = { refusal, stand: standOf(session()) };
      if (ABOUT_PROCESSES.has(refusal.reason)) void this.#recheck(key, session);
    } finally {
      delete this.opening[key];
    }
  }

  /** A process can begin and end before any event tells of it: then nothing but a look shows that a refusal is old. */
  async #recheck(key: string, session: () => Session | undefined): Promise<void> {
    const noted = this.#refusals[key];
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, RECHECK_MS));
      const now = session();
      if (this.#refusals[key] !== noted || !now || this.refusalOf(key, now) === null) return;
      const look = await api.look(now.ref).catch(() => null);
      if (look?.session.restore.kind === "resume" && this.#refusals[key] === noted) {
        delete this.#refusals[key];
        return;
      }
    }
  }

  /** Go to a tab that has just come to be; its event may be on the way still. */
  async #showTab(tab: string, onlyFrom: typeof navigation.place | null): Promise<void> {
    if (!store.tabs.has(tab)) {
      const { tabs } = await api.tabs();
      for (const one of tabs) if (one.tab === tab) store.takeTab(one);
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

const RECHECK_MS = 2000;
/** Refusals that say who has a session, or may have it. */
const ABOUT_PROCESSES: ReadonlySet<string> = new Set(["already_live", "claimed_elsewhere", "maybe_open"]);

/** All that such a refusal can be about: when one of these changes, it is not true any more. */
function standOf(session: Session | undefined): string {
  return JSON.stringify(session && [session.state, session.pids, session.maybe_pids, session.restore]);
}

export const actions: Reading<Actions> = new Actions();
