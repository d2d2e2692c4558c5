/** Words for what the page shows. Those of a session's state come from the server; nothing here decides one. */
import { age, clock } from "../format.ts";
import type { Refusal } from "../refusal/refusal.ts";
import type { Colour, Session, Tab, TabState } from "../types.ts";

/** A sign with its word, ready to be shown. */
export interface Said {
  sign: string;
  colour: Colour;
  /** One word, for screen readers and tabs. */
  word: string;
  /** The word with an age or a time of day beside it. */
  words: string;
}

/** A session's state as people see it, in the server's words. `now` is in epoch seconds. */
export function sayState({ sign, colour, word, since, lost_at }: Session, now: number): Said {
  const beside = since !== null ? ` ${age(now - since)}` : lost_at !== null ? ` ${clock(lost_at, now)}` : "";
  return { sign, colour, word, words: word + beside };
}

const TAB_WORDS: Record<TabState, Said> = {
  running: { sign: "●", colour: "green", word: "running", words: "running" },
  starting: { sign: "◌", colour: "grey", word: "starting", words: "starting" },
  ended: { sign: "○", colour: "grey", word: "ended", words: "ended" },
  gone: { sign: "↻", colour: "grey", word: "to restore", words: "its terminal is gone; it can be brought back" },
  refused: { sign: "✖", colour: "red", word: "refused", words: "could not be brought back" },
  queued: { sign: "◌", colour: "grey", word: "queued", words: "waits for its turn" },
  resuming: { sign: "◌", colour: "blue", word: "resuming", words: "resuming" },
};

const NOT_RESTORABLE: Said = { sign: "✖", colour: "grey", word: "gone", words: "its terminal is gone for good" };

/** A tab's sign: that of its session while it runs, else what became of its terminal. */
export function sayTab(tab: Tab, session: Session | undefined, now: number): Said {
  if (tab.state === "running" && session) return sayState(session, now);
  if (tab.state === "gone" && !tab.restorable) return NOT_RESTORABLE;
  return TAB_WORDS[tab.state];
}

const VERDICTS: Record<string, string> = {
  live: "proves that it is live",
  stale: "is proven dead",
  "remote-host": "belongs to another host",
  unknown: "can be neither verified nor refuted",
  refused: "is not a valid claim",
};

export function sayVerdict(verdict: string): string {
  return VERDICTS[verdict] ?? verdict;
}

/** What a refusal is about, as a heading; its sentence comes from the server. */
const REFUSALS: Partial<Record<Refusal["reason"], string>> = {
  already_live: "Already open",
  claimed_elsewhere: "Open on another machine",
  maybe_open: "Maybe open already",
  never_identified: "Never identified",
  not_durable: "Nothing to resume yet",
  transcript_missing: "Its transcript is gone",
  work_dir_missing: "Its directory is gone",
  work_dir_unregistered: "Its directory is not registered",
  home_missing: "The agent's data is gone",
  provider_missing: "The agent is not installed",
  provider_unsupported: "This version can't resume",
  unsafe_settings: "Unsafe settings",
  restore_unsupported: "Can't be restored",
  identity_invalid: "No valid identity",
  spawn_failed: "It did not start",
  ask_trust: "A directory new to corral",
  hooks_missing: "This agent would be live only",
  no_such_session: "It is gone",
  no_such_tab: "It is gone",
  serves_others: "It serves other sessions too",
};

export function sayRefusal(reason: Refusal["reason"]): string {
  return REFUSALS[reason] ?? "Not done";
}

/** Whether it may be open somewhere already, so that to open it is no matter of course. */
export function isDoubted(session: Session): boolean {
  return session.restore.kind === "refused" && session.restore.reason === "maybe_open";
}

/** Why it can't be opened as things stand, where that is sure and not a matter of doubt. */
export function knownRefusal(session: Session): Refusal | null {
  const { kind, reason, message, remedy, commands, loss } = session.restore;
  if (kind !== "refused" || reason === null || isDoubted(session)) return null;
  return { reason, message: message ?? session.reason, remedy, commands, loss, go_there: null };
}

export function titleOf(session: Session): string {
  return session.title?.trim() || "(untitled)";
}
