/** The one store: a snapshot, kept true by events. Others read it and call it; only the code here writes it. */
import { SvelteMap } from "svelte/reactivity";
import { api, asRefusal, onLoggedOut, RequestError } from "../server/api.ts";
import { whoNeedsYou } from "../sidebar/arrange.ts";
import { Backoff } from "../server/backoff.ts";
import { DoorError, enter } from "../server/door.ts";
import { EventStream } from "../server/events.ts";
import type { Reading } from "./reading.ts";
import type {
  Activity,
  AgentProcess,
  Degraded,
  Progress,
  ProviderReport,
  ServerEvent,
  Session,
  SessionEvent,
  SessionList,
  SpentToday,
  StateWord,
  Tab,
  UsageEvent,
} from "../types.ts";
import { Watchdog } from "../server/watchdog.ts";

const TICK_MS = 5000;
const NOTICE_MS = 8000;
const WATCH_MS = 1000;
/** After so long a silence all is asked for once more: the way to the server may have died without a word. */
const ASK_AGAIN_S = 30;

export interface Notice {
  id: number;
  kind: "info" | "problem";
  text: string;
  /** What one can do about it, as one button. */
  action?: { label: string; run: () => void };
}

class Store {
  /** `starting` until the first snapshot, `locked` when this browser is not logged in. */
  phase = $state<"starting" | "locked" | "ready">("starting");
  /** Why the first snapshot is not there yet, in words. */
  startProblem = $state<string | null>(null);
  connected = $state(false);
  /** Seconds since the last word of the server, when one is overdue or the stream is lost; else null. */
  oldFor = $state<number | null>(null);
  host = $state("");
  version = $state<string | null>(null);
  userHome = $state<string | undefined>(undefined);
  demo = $state(false);
  sessions = new SvelteMap<string, Session>();
  tabs = new SvelteMap<string, Tab>();
  unattributed = $state.raw<AgentProcess[]>([]);
  noSessionYet = $state.raw<AgentProcess[]>([]);
  degraded = $state.raw<Degraded[]>([]);
  providers = $state.raw<ProviderReport[]>([]);
  /** Each state with its word and sign, in the order of a list. */
  states = $state.raw<StateWord[]>([]);
  usageToday = $state.raw<SpentToday | null>(null);
  restore = $state<Progress | null>(null);
  notices = $state<Notice[]>([]);
  /** Said by screen readers; not shown. */
  announcement = $state("");
  /** Epoch seconds, for ages; moves every few seconds, and stands still while what is shown is old. */
  now = $state(Date.now() / 1000);

  tabList = $derived([...this.tabs.values()].sort((a, b) => a.order - b.order || (a.tab < b.tab ? -1 : 1)));
  #tabsByRef = $derived(new Map(this.tabList.filter((tab) => tab.ref !== null).map((tab) => [tab.ref, tab])));
  needing = $derived(whoNeedsYou(this.sessions.values()));

  #stream: EventStream | null = null;
  #noticeCount = 0;
  #backoff = new Backoff();
  #watchdog = new Watchdog();
  #beginning: Promise<void> | null = null;

  constructor() {
    onLoggedOut((why) => this.#lock(why));
    setInterval(() => this.oldFor === null && (this.now = Date.now() / 1000), TICK_MS);
    setInterval(() => this.#watch(), WATCH_MS);
    const back = () => this.#stream?.retryNow();
    window.addEventListener("online", back);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && back());
  }

  /** Fetch everything and follow it from there; tries until it works or this browser is not logged in. */
  begin(): Promise<void> {
    this.#beginning ??= this.#begin().finally(() => (this.#beginning = null));
    return this.#beginning;
  }

  /** By the code of a link. Returns why not, or null. */
  async logIn(code: string): Promise<string | null> {
    try {
      await enter(code);
    } catch (error) {
      return error instanceof DoorError ? error.message : `The page failed: ${String(error)}`;
    }
    this.startProblem = null;
    if (this.phase === "locked") this.phase = "starting";
    await this.begin();
    return null;
  }

  /** Why a link did not let this browser in, where the person looks for it. */
  sayLoginProblem(problem: string): void {
    if (this.phase === "ready") this.notify("problem", problem);
    else this.startProblem = problem;
  }

  async #begin(): Promise<void> {
    for (;;) {
      try {
        await this.#takeSnapshot();
        this.phase = "ready";
        this.startProblem = null;
        this.#backoff.reset();
        return;
      } catch (error) {
        if (error instanceof RequestError && error.status === 401) return;
        this.startProblem = asRefusal(error).message;
        await new Promise((resolve) => setTimeout(resolve, this.#backoff.next()));
      }
    }
  }

  notify(kind: Notice["kind"], text: string, action?: Notice["action"]): void {
    const id = ++this.#noticeCount;
    this.notices.push(action ? { id, kind, text, action } : { id, kind, text });
    if (kind === "info") setTimeout(() => this.forget(id), action ? NOTICE_MS * 2 : NOTICE_MS);
  }

  forget(id: number): void {
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }

  /** A state in the server's words; none before the first snapshot. */
  wordOf(state: string, activity: Activity | null = null): StateWord | undefined {
    return this.states.find((one) => one.state === state && one.activity === activity);
  }

  sessionOf(tab: Tab | undefined): Session | undefined {
    return tab?.ref ? this.sessions.get(tab.ref) : undefined;
  }

  /** The tab in which a session is served. Tabs say so; what a session says of its tab may be older. */
  tabOf(session: Session): Tab | undefined {
    return this.#tabsByRef.get(session.ref);
  }

  /** A tab that the server told of in an answer; its event may come later. */
  takeTab(tab: Tab): void {
    this.tabs.set(tab.tab, tab);
  }

  /** A tab that was closed here. */
  dropTab(id: string): void {
    this.tabs.delete(id);
  }

  takeProviders(providers: ProviderReport[]): void {
    this.providers = providers;
  }

  /** How far "restore all" is. */
  takeProgress(progress: Progress): void {
    this.restore = progress.done >= progress.total ? null : progress;
    if (this.restore === null && progress.total) this.#sayRestored(progress);
  }

  #watch(): void {
    const old = this.phase === "ready" && (this.#watchdog.isOverdue || (!this.connected && this.#watchdog.age > 0));
    this.oldFor = old ? this.#watchdog.age : null;
    if (old && this.connected && this.#watchdog.age >= ASK_AGAIN_S) void this.begin();
  }

  /** A message came. */
  #hear(): void {
    this.#watchdog.heard();
    if (this.connected) this.oldFor = null;
  }

  async #takeSnapshot(): Promise<void> {
    const [survey, { tabs }] = await Promise.all([api.sessions(), api.tabs()]);
    this.#adopt(survey, tabs);
    this.#hear();
    this.#stream?.close();
    this.#stream = new EventStream(String(survey.event), {
      event: (event) => this.#take(event),
      connected: (yes) => (this.connected = yes),
      mayTry: async () => {
        // An event stream does not say why it failed; a plain request does.
        try {
          await api.tabs();
        } catch (error) {
          return !(error instanceof RequestError && error.status === 401);
        }
        return true;
      },
    });
  }

  #adopt(survey: SessionList, tabs: Tab[]): void {
    this.host = survey.host;
    this.version = survey.version;
    this.userHome = survey.user_home;
    this.demo = survey.demo;
    this.unattributed = survey.unattributed;
    this.noSessionYet = survey.no_session_yet;
    this.degraded = survey.degraded;
    this.providers = survey.providers;
    this.states = survey.states;
    this.usageToday = survey.usage_today;
    replace(this.sessions, survey.sessions, (session) => session.ref);
    replace(this.tabs, tabs, (tab) => tab.tab);
    this.now = Date.now() / 1000;
  }

  #take({ event, data }: ServerEvent): void {
    this.#hear();
    this.now = Date.now() / 1000;
    switch (event) {
      case "hello":
        this.version = data.version;
        this.#watchdog.expect(data.beat_s);
        return;
      case "session":
        return this.#takeSession(data);
      case "tab":
        return data.change === "closed" ? this.dropTab(data.tab.tab) : this.takeTab(data.tab);
      case "restore":
        return this.takeProgress(data);
      case "usage":
        return this.#takeUsage(data);
      case "agents":
        this.unattributed = data.unattributed;
        this.noSessionYet = data.no_session_yet;
        return;
      case "degraded":
        this.degraded = data.degraded;
        return;
      case "resync":
        void this.begin();
        return;
      case "beat": // that it came is all it says
      case "switched": // both sessions come as events of their own
        return;
      default: // of a newer server
        event satisfies never;
    }
  }

  #takeSession({ change, session }: SessionEvent): void {
    if (change === "gone") {
      this.sessions.delete(session.ref);
      return;
    }
    const before = this.sessions.get(session.ref);
    this.sessions.set(session.ref, session);
    if (session.needs_you && !before?.needs_you)
      this.announcement = `${session.title ?? session.provider} needs you: ${session.word}.`;
  }

  #takeUsage({ usage_today, sessions }: UsageEvent): void {
    this.usageToday = usage_today;
    for (const [ref, usage] of Object.entries(sessions)) {
      const session = this.sessions.get(ref);
      if (session) this.sessions.set(ref, { ...session, usage });
    }
  }

  #sayRestored({ total, failed }: Progress): void {
    if (failed) this.notify("problem", `${total - failed} of ${total} tabs are back; ${failed} say why not.`);
    else this.notify("info", `All ${total} tabs are back.`);
  }

  #lock(why: string): void {
    this.startProblem ??= why;
    this.#stream?.close();
    this.#stream = null;
    this.connected = false;
    this.phase = "locked";
  }
}

function replace<T>(map: SvelteMap<string, T>, items: T[], key: (item: T) => string): void {
  const keep = new Set(items.map(key));
  for (const old of [...map.keys()]) if (!keep.has(old)) map.delete(old);
  for (const item of items) map.set(key(item), item);
}

export const store: Reading<Store> = new Store();
