/** What the server takes and says: made by tools/make_web_types.py from `GET /api/openapi.json`. */

/** Of a live session, as far as its provider says. */
export type Activity = "busy" | "ready" | "waiting";

/** A running agent CLI without a known session: it does not report one, or it has none yet. */
export interface AgentProcess {
  provider: string;
  pid: number;
  started_at: number;
  home: string | null;
  mode: ProcessMode;
  terminal: string | null;
  work_dir: string | null;
  advice: string | null;
}

/** All agents without a known session, as in the list of sessions. */
export interface AgentsEvent {
  unattributed: AgentProcess[];
  no_session_yet: AgentProcess[];
}

/** Nothing happened. It has no `id`. */
export type BeatEvent = Record<string, never>;

/** Of one session. */
export type Change = "appeared" | "changed" | "ended" | "gone";

/** Of a sign. What each looks like is up to the view. */
export type Colour = "amber" | "blue" | "faint" | "green" | "grey" | "red" | "violet";

/** A step of the survey that failed: nothing found and nothing readable are not the same. */
export interface Degraded {
  provider: string;
  step: string;
  reason: string;
}

/** Everything that can't be read or watched at present. */
export interface DegradedEvent {
  degraded: Degraded[];
}

export interface Directories {
  directories: string[];
  recent: string[];
}

export interface Dismiss {
  dismissed?: boolean;
}

/** `ref` is the session that the person saw in it. If it has another one by now, nothing is ended. */
export interface EndTab {
  ref?: string | null;
}

/** The body of every answer with a status of 400 or above. */
export interface ErrorDocument {
  error: RefusalReport;
}

/** One claim and what became of it. `verdict` is live, stale, remote-host, unknown, or refused. */
export interface EvidenceReport {
  kind: string;
  path: string;
  pid: number | null;
  hostname: string | null;
  verdict: string;
  rule: string;
  reason: string;
}

/** A place outside corral where the session is open. */
export interface GoThere {
  kind: string;
  target: string;
  command: string[];
}

export interface Health {
  ok: boolean;
}

/** A page names its login, or the name of a link's code, with a fresh number (32 hexadecimal digits). */
export interface Hello {
  login: string;
  nonce: string;
}

/** The first event. From now on one comes at least every `beat_s` seconds. */
export interface HelloEvent {
  version: string;
  event: number;
  beat_s: number;
}

export interface HooksInstalled {
  status: string;
}

/** The status of our hooks in a provider's settings. */
export type HooksStanding = "changed" | "installed" | "missing";

export interface LoginList {
  logins: LoginReport[];
}

/** One browser that is logged in. Times are seconds since 1970. */
export interface LoginReport {
  login: string;
  label: string;
  created_at: number;
  used_at: number;
}

/** One session as it is now, not as it was at the last change. */
export interface LookedAt {
  session: Session;
  processes: ProcessPlace[];
}

/** What a resume would drop for good: the provider's own reader stops at a damaged line. */
export interface Loss {
  path: string;
  line: number;
  lines: number;
  prompts: number;
}

/** What was counted before and is lost; null where that is not known. Times are seconds since 1970. */
export interface LostUsage {
  noticed_at: number;
  what: string;
  events: number | null;
  since: number | null;
  until: number | null;
}

export interface Move {
  order: number;
}

/** A new session. `live_only` starts it without the hooks that would make it restorable. */
export interface NewTab {
  provider: string;
  work_dir: string;
  args?: string[];
  trust?: boolean;
  live_only?: boolean;
  columns?: number;
  rows?: number;
}

/** An empty object. */
export type Nothing = Record<string, never>;

export interface OneSession {
  session: Session;
}

/** `anyway` overrides maybe_open and claimed_elsewhere; `trust` agrees to a directory that is new to corral. `drop_from` agrees that the agent drops its transcript from this damaged line on: the line of a refusal's `loss`. With `attach_only` nothing is started: it is shown where it runs, or refused as `not_open`. */
export interface OpenSession {
  anyway?: boolean;
  trust?: boolean;
  drop_from?: number | null;
  attach_only?: boolean;
  columns?: number;
  rows?: number;
}

/** The fields mean the same as for a session. */
export interface OpenTab {
  anyway?: boolean;
  trust?: boolean;
  drop_from?: number | null;
  columns?: number;
  rows?: number;
}

/** `plan` is attach, resume or wait. */
export interface OpenedTab {
  tab: string;
  plan: string;
}

/** The page's proof, for the server's number. `label` is the name of a new login in the list. */
export interface PageProof {
  nonce: string;
  proof: string;
  label?: string;
}

/** What the page sends from now on, as `Authorization: Corral <token>`; after a code also the new login. */
export interface PageToken {
  token: string;
  seconds: number;
  login: string | null;
  salt: string | null;
}

/** Where a process is: in a tab of ours, in a pane of tmux, in another terminal, or in none. */
export type PlaceKind = "none" | "tab" | "terminal" | "tmux";

/** Where the price of a model comes from. `dated` is null for your own prices. */
export interface PriceOrigin {
  model: string;
  listed_as: string;
  source: string;
  dated: string | null;
  assumed: boolean;
}

/** How an agent process was started, as far as can be seen from outside. */
export type ProcessMode = "client" | "headless" | "interactive" | "server" | "unknown";

/** A process that has the session, or may have it. `kind` is tab, tmux, terminal or none. */
export interface ProcessPlace {
  pid: number;
  kind: PlaceKind;
  words: string;
  tab: string | null;
  command: string[];
}

/** Of "restore all". */
export interface Progress {
  done: number;
  total: number;
  failed: number;
}

/** One agent CLI. `hooks` is installed, missing or changed; null if it takes no hooks. */
export interface ProviderReport {
  name: string;
  title: string;
  installed: boolean;
  version: string | null;
  restore: RestoreSupport;
  needs_hooks: boolean;
  hooks: HooksStanding | null;
  picks_id: boolean;
  proven: boolean;
}

export interface Queued {
  queued: number;
}

/** The closed list of reasons; the same word on the command line, in JSON, in the log and on the page. */
export type RefusalReason =
  | "already_live"
  | "ask_trust"
  | "bug"
  | "claimed_elsewhere"
  | "header_missing"
  | "home_missing"
  | "hooks_missing"
  | "hooks_refused"
  | "identity_invalid"
  | "invalid"
  | "ledger_unusable"
  | "login_unknown"
  | "maybe_open"
  | "method_not_allowed"
  | "never_identified"
  | "no_such_login"
  | "no_such_provider"
  | "no_such_session"
  | "no_such_tab"
  | "not_answering"
  | "not_durable"
  | "not_ended"
  | "not_found"
  | "not_live"
  | "not_logged_in"
  | "not_open"
  | "not_running"
  | "not_saved"
  | "provider_missing"
  | "provider_unsupported"
  | "refused"
  | "restore_unsupported"
  | "serves_others"
  | "session_changed"
  | "spawn_failed"
  | "too_large"
  | "too_many"
  | "too_slow"
  | "transcript_missing"
  | "unsafe_settings"
  | "work_dir_missing"
  | "work_dir_unregistered"
  | "wrong_content_type"
  | "wrong_host"
  | "wrong_origin"
  | "wrong_proof";

/** Why not: a machine's word, one plain sentence, what one can do. The same words as in the log. */
export interface RefusalReport {
  reason: RefusalReason;
  message: string;
  remedy: string[];
  commands: string[];
  go_there: GoThere | null;
  loss: Loss | null;
}

/** How one gets back into a session. */
export type RestoreKind = "attach" | "refused" | "resume" | "wait";

/** How to get back in. `reason` is one of the closed list of refusals, and null for all other kinds. */
export interface RestoreReport {
  kind: RestoreKind;
  argv: string[] | null;
  cwd: string | null;
  env: Record<string, string> | null;
  pid: number | null;
  terminal: string | null;
  reason: RefusalReason | null;
  message: string | null;
  remedy: string[];
  commands: string[];
  loss: Loss | null;
  keep: string[];
}

/** Whether a provider's sessions can be restored. */
export type RestoreSupport = "none" | "resume";

/** Fetch sessions and tabs again. */
export interface ResyncEvent {
  reason: string;
}

/** One event of the stream: its name, and its data. */
export type ServerEvent =
  | { event: "hello"; data: HelloEvent }
  | { event: "beat"; data: BeatEvent }
  | { event: "session"; data: SessionEvent }
  | { event: "switched"; data: SwitchedEvent }
  | { event: "tab"; data: TabEvent }
  | { event: "restore"; data: Progress }
  | { event: "usage"; data: UsageEvent }
  | { event: "agents"; data: AgentsEvent }
  | { event: "degraded"; data: DegradedEvent }
  | { event: "resync"; data: ResyncEvent };

/** The server's own fresh number, and its proof over both. */
export interface ServerProof {
  nonce: string;
  proof: string;
}

/** A session of `corral ps --all --json`, with what the page also needs. */
export interface Session {
  provider: string;
  home: string;
  scope: string;
  session_id: string;
  state: State;
  reason: string;
  elsewhere: string | null;
  silence: string | null;
  activity: Activity | null;
  word: string;
  sign: string;
  colour: Colour;
  since: number | null;
  lost_at: number | null;
  needs_you: boolean;
  order: number[];
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
  expires_at: number | null;
  archived: boolean;
  forked_from: string | null;
  parent_id: string | null;
  foreground: boolean | null;
  version: string | null;
  model: string | null;
  path: string | null;
  conflict: string | null;
  notes: string[];
  warnings: string[];
  evidence: EvidenceReport[];
  restore: RestoreReport;
  ref: string;
  tab: string | null;
  dismissed: boolean;
  usage: SpentBySession | null;
}

/** A session as it is now, or as it was last if it is gone. */
export interface SessionEvent {
  change: Change;
  session: Session;
}

/** As `corral ps --all --json` (docs/json.md), with `event`: the newest event that is already in it. */
export interface SessionList {
  schema: number;
  host: string;
  generated_at: number;
  sessions: Session[];
  unattributed: AgentProcess[];
  no_session_yet: AgentProcess[];
  counts: Record<string, number>;
  degraded: Degraded[];
  event: number;
  providers: ProviderReport[];
  usage_today: SpentToday | null;
  user_home: string;
  version: string;
  demo: boolean;
  states: StateWord[];
}

/** A line that could not be counted, or a log that could not be read. */
export interface SkippedUsage {
  path: string;
  offset: number;
  reason: string;
}

/** Opens one WebSocket, as the subprotocols `corral, ticket.<ticket>`. The proof shows that the server made it. */
export interface SocketTicket {
  ticket: string;
  proof: string;
}

/** What one session used. Money is a decimal as text; null if nothing in it has a known price. */
export interface SpentBySession {
  tokens: number;
  cost: string | null;
  currency: string;
  today_tokens: number;
  today_cost: string | null;
  assumed: boolean;
}

export interface SpentOnDay {
  day: string;
  cost: string | null;
  tokens: number;
}

/** All sessions together, with the days before. */
export interface SpentToday {
  cost: string | null;
  currency: string;
  tokens: number;
  days: SpentOnDay[];
  losses: string[];
}

export interface StartedTab {
  tab: string;
}

/** Of a session, in the order of precedence. */
export type State = "elsewhere" | "empty" | "idle" | "live" | "orphaned" | "pending" | "unknown";

/** A state, or one activity of a live session, without a session: for counts, filters and headings. */
export interface StateWord {
  state: State;
  activity: Activity | null;
  word: string;
  sign: string;
  colour: Colour;
}

/** A process switched to another session; both are refs. */
export interface SwitchedEvent {
  pid: number;
  from: string;
  to: string;
}

/** One tab. `state` is running, starting, ended, gone, refused, queued or resuming. */
export interface Tab {
  tab: string;
  order: number;
  provider: string | null;
  title: string;
  work_dir: string | null;
  ref: string | null;
  state: TabState;
  restorable: boolean;
  live_only_reason: string | null;
  pid: number | null;
  exit_status: number | null;
  ended: string | null;
  refusal: RefusalReport | null;
  activity: Activity | null;
  columns: number;
  rows: number;
}

/** What happened to a tab. */
export type TabChange = "changed" | "closed" | "opened";

/** A tab as it is now, or as it was last if it is closed. */
export interface TabEvent {
  change: TabChange;
  tab: Tab;
}

export interface TabList {
  tabs: Tab[];
}

/** What became of a tab's terminal. */
export type TabState = "ended" | "gone" | "queued" | "refused" | "resuming" | "running" | "starting";

export interface TicketWanted {
  nonce: string;
}

/** Logs that were not read yet, as no question needed them. `until`: when the newest of them was last modified. */
export interface UnreadUsage {
  files: number;
  bytes: number;
  until: number;
}

/** Calls whose tokens were not recorded; `events` is null if they leave no trace. */
export interface UnrecordedUsage {
  provider: string;
  kind: string;
  events: number | null;
}

/** `amount` is the sum of what has a price, a decimal as text; null if nothing has one. */
export interface UsageCost {
  amount: string | null;
  currency: string;
  unpriced_events: number;
  assumed_events: number;
}

/** The same as `corral usage --json` (docs/json.md). `budget` is always null here. */
export interface UsageDocument {
  schema: number;
  rows: UsageRow[];
  total: UsageRow;
  unrecorded: UnrecordedUsage[];
  skipped: SkippedUsage[];
  notice: string | null;
  budget: Record<string, unknown> | null;
  prices: PriceOrigin[];
  notes: string[];
  losses: LostUsage[];
  unread: UnreadUsage | null;
}

/** What was spent today, and by each session whose sums changed; the keys are refs. */
export interface UsageEvent {
  usage_today: SpentToday | null;
  sessions: Record<string, SpentBySession | null>;
}

/** `calls` is only set by tool. `turns` is null if these keys don't allow to count it. */
export interface UsageRow {
  key: Record<string, string | null>;
  events: number;
  tokens: UsageTokens;
  cost: UsageCost;
  calls: number | null;
  turns: number | null;
}

/** By kind; the kinds are disjoint. */
export interface UsageTokens {
  input: number;
  cache_read: number;
  cache_write: number;
  cache_write_1h: number;
  output: number;
  reasoning: number;
}
