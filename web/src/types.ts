/** What the server says, as documented in docs/json.md and docs/api.md; the page adds nothing to it. */

export type State = "live" | "pending" | "elsewhere" | "unknown" | "orphaned" | "empty" | "idle";
export type Activity = "busy" | "ready" | "waiting";

export interface Evidence {
  kind: string;
  path: string;
  pid: number | null;
  hostname: string | null;
  verdict: string;
  rule: string;
  reason: string;
}

export interface Restore {
  kind: "attach" | "resume" | "wait" | "refused";
  argv: string[] | null;
  cwd: string | null;
  pid: number | null;
  terminal: string | null;
  reason: string | null;
  message: string | null;
  remedy: string[];
  commands?: string[];
  loss?: Loss | null;
}

export interface SessionUsage {
  tokens: number;
  cost: string | null;
  currency: string;
  today_tokens: number;
  today_cost: string | null;
  assumed: boolean;
}

export interface Session {
  ref: string;
  tab: string | null;
  dismissed: boolean;
  usage: SessionUsage | null;
  provider: string;
  home: string;
  scope: string;
  session_id: string;
  state: State;
  reason: string;
  /** Of a session that is elsewhere: who claims it, in words. */
  elsewhere: string | null;
  /** Of a session that was started: why its agent will not say so. */
  silence: string | null;
  activity: Activity | null;
  durable: boolean;
  pid: number | null;
  pids: number[];
  maybe_pids: number[];
  started_at: number | null;
  created_at: number | null;
  updated_at: number | null;
  turn_started_at: number | null;
  work_dir: string | null;
  branch: string | null;
  title: string | null;
  unfinished: string | null;
  waits_for: string | null;
  archived: boolean;
  forked_from: string | null;
  version: string | null;
  model: string | null;
  path: string | null;
  conflict: string | null;
  notes: string[];
  warnings: string[];
  evidence: Evidence[];
  restore: Restore;
}

export interface AgentProcess {
  provider: string;
  pid: number;
  started_at: number;
  home: string | null;
  mode: string;
  terminal: string | null;
  work_dir: string | null;
  advice: string | null;
}

export interface Degraded {
  provider: string;
  step: string;
  reason: string;
}

export interface Provider {
  name: string;
  title: string;
  installed: boolean;
  version: string | null;
  restore: "resume" | "none";
  needs_hooks: boolean;
  hooks: "installed" | "missing" | "changed" | null;
  picks_id: boolean;
  proven: boolean;
}

export interface UsageToday {
  cost: string | null;
  currency: string;
  tokens: number;
  days: { day: string; cost: string | null; tokens: number }[];
  /** What was counted once and could not be saved, each in a sentence. */
  losses: string[];
}

export interface Survey {
  host: string;
  generated_at: number;
  sessions: Session[];
  unattributed: AgentProcess[];
  no_session_yet: AgentProcess[];
  degraded: Degraded[];
  event: string | number | null;
  providers: Provider[];
  usage_today: UsageToday | null;
  user_home?: string;
  version?: string;
  /** Served by `corral demo`. */
  demo: boolean;
}

export interface GoThere {
  kind: string;
  target: string;
  command: string[];
}

/** Why something was not done: the same words as in JSON and log. */
export interface Refusal {
  reason: string;
  message: string;
  remedy: string[];
  /** Those of `remedy` that can be typed as they are; the others are sentences. */
  commands?: string[];
  go_there?: GoThere;
  /** What opening it would drop from its transcript; the person may agree to that. */
  loss?: Loss | null;
}

export interface Loss {
  path: string;
  line: number;
  lines: number;
  prompts: number;
}

/** What a person agrees to when a tab is opened. */
export interface Agreed {
  anyway?: boolean;
  trust?: boolean;
  /** The damaged line from which on the agent may drop its transcript. */
  drop_from?: number;
}

/** A process that has a session, or may have it, and where it is. */
export interface ProcessPlace {
  pid: number;
  kind: "tab" | "tmux" | "terminal" | "none";
  words: string;
  tab: string | null;
  command: string[];
}

export interface LookedAt {
  session: Session;
  processes: ProcessPlace[];
}

export type TabState = "running" | "starting" | "ended" | "gone" | "refused" | "queued" | "resuming";

export interface Tab {
  tab: string;
  order: number;
  provider: string | null;
  title: string | null;
  work_dir: string | null;
  ref: string | null;
  state: TabState;
  restorable: boolean;
  live_only_reason: string | null;
  pid: number | null;
  exit_status: number | null;
  /** How its program ended, in words. */
  ended: string | null;
  refusal: Refusal | null;
  activity: Activity | null;
  columns: number;
  rows: number;
}

export interface Opened {
  tab: string;
  plan?: string;
}

export interface Tokens {
  input: number;
  cache_read: number;
  cache_write: number;
  cache_write_1h: number;
  output: number;
  reasoning: number;
}

export interface UsageRow {
  key: Record<string, string | null>;
  events: number;
  tokens: Tokens;
  cost: { amount: string | null; currency: string; unpriced_events: number; assumed_events: number };
}

/** Where the price of a model comes from; no date: the person's own. */
export interface PriceOrigin {
  model: string;
  listed_as: string;
  source: string;
  dated: string | null;
  assumed: boolean;
}

export interface UsageReport {
  rows: UsageRow[];
  total: UsageRow;
  unrecorded: { provider: string; kind: string; events: number | null }[];
  skipped: { path: string; offset: number; reason: string }[];
  notice: string | null;
  prices: PriceOrigin[];
  notes: string[];
}
