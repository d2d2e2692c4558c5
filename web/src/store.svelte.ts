/** The one store: a snapshot, kept true by events. Components read it; only the code here writes it. */
import { SvelteMap } from "svelte/reactivity";
import { api, asRefusal, onLoggedOut, RequestError } from "./api.ts";
import { needsYou, whoNeedsYou } from "./arrange.ts";
import { Backoff } from "./backoff.ts";
import { EventStream, type EventName } from "./events.ts";
import type { AgentProcess, Degraded, Provider, Session, SessionUsage, Survey, Tab, UsageToday } from "./types.ts";
import { Watchdog } from "./watchdog.ts";
import { STATE_WORDS } from "./words.ts";

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

export interface RestoreProgress {
  done: number;
  total: number;
  failed: number;
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
  providers = $state.raw<Provider[]>([]);
  usageToday = $state.raw<UsageToday | null>(null);
  restore = $state<RestoreProgress | null>(null);
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

  sessionOf(tab: Tab | undefined): Session | undefined {
    return tab?.ref ? this.sessions.get(tab.ref) : undefined;
  }

  /** The tab in which a session is served. Tabs say so; what a session says of its tab may be older. */
  tabOf(session: Session): Tab | undefined {
    return this.#tabsByRef.get(session.ref);
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
    this.#stream = new EventStream(survey.event === null || survey.event === undefined ? "" : String(survey.event), {
      event: (name, data) => this.#take(name, data),
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

  #adopt(survey: Survey, tabs: Tab[]): void {
    this.host = survey.host;
    this.version = survey.version ?? this.version;
    this.userHome = survey.user_home;
    this.demo = survey.demo;
    this.unattributed = survey.unattributed;
    this.noSessionYet = survey.no_session_yet;
    this.degraded = survey.degraded;
    this.providers = survey.providers;
    this.usageToday = survey.usage_today;
    replace(this.sessions, survey.sessions, (session) => session.ref);
    replace(this.tabs, tabs, (tab) => tab.tab);
    this.now = Date.now() / 1000;
  }

  #take(name: EventName, data: unknown): void {
    this.#hear();
    this.now = Date.now() / 1000;
    switch (name) {
      case "hello": {
        const hello = data as { version?: string; beat_s?: number };
        this.version = hello.version ?? this.version;
        this.#watchdog.expect(hello.beat_s ?? null);
        return;
      }
      case "beat":
        return; // that it came is all it says
      case "session":
        return this.#takeSession(data as { change: string; session?: Session; ref?: string });
      case "tab":
        return this.#takeTab(data as { change: string; tab: Tab });
      case "restore": {
        const progress = data as RestoreProgress;
        this.restore = progress.done >= progress.total ? null : progress;
        if (this.restore === null && progress.total) this.#sayRestored(progress);
        return;
      }
      case "usage":
        return this.#takeUsage(data as { usage_today: UsageToday | null; sessions?: Record<string, SessionUsage> });
      case "agents": {
        const agents = data as Pick<Survey, "unattributed" | "no_session_yet">;
        this.unattributed = agents.unattributed;
        this.noSessionYet = agents.no_session_yet;
        return;
      }
      case "degraded":
        this.degraded = (data as { degraded: Degraded[] }).degraded;
        return;
      case "resync":
        void this.begin();
        return;
      case "switched":
        return; // both sessions come as events of their own
    }
  }

  #takeSession({ change, session, ref }: { change: string; session?: Session; ref?: string }): void {
    const key = session?.ref ?? ref;
    if (key === undefined) return;
    if (change === "gone" || !session?.state) {
      this.sessions.delete(key);
      return;
    }
    const before = this.sessions.get(key);
    this.sessions.set(key, session);
    if (needsYou(session) && !(before && needsYou(before))) {
      const what = session.state === "orphaned" ? `was ${STATE_WORDS.orphaned} in a turn` : "waits for you";
      this.announcement = `${session.title ?? session.provider} ${what}.`;
    }
  }

  #takeUsage({
    usage_today,
    sessions,
  }: {
    usage_today: UsageToday | null;
    sessions?: Record<string, SessionUsage>;
  }): void {
    this.usageToday = usage_today;
    for (const [ref, usage] of Object.entries(sessions ?? {})) {
      const session = this.sessions.get(ref);
      if (session) this.sessions.set(ref, { ...session, usage });
    }
  }

  #takeTab({ change, tab }: { change: string; tab: Tab }): void {
    if (change === "closed") this.tabs.delete(tab.tab);
    else this.tabs.set(tab.tab, tab);
  }

  #sayRestored({ total, failed }: RestoreProgress): void {
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

export const store = new Store();
