/** Signs, colours and words for states: one table for the whole page. Nothing here decides a state. */
import { age, clock } from "./format.ts";
import type { Refusal, Session, State, Tab, TabState } from "./types.ts";

export type Colour = "green" | "blue" | "amber" | "grey" | "red" | "violet" | "faint";

export interface Said {
  sign: string;
  colour: Colour;
  /** One word, for filters and tabs. */
  word: string;
  /** The word with what is known beside it. */
  words: string;
  /** The same where there is little room. */
  short?: string;
}

/** The one word for each state, in the order in which the filters show them. */
export const STATE_WORDS: Record<State, string> = {
  live: "live",
  pending: "starting",
  orphaned: "lost",
  unknown: "unknown",
  elsewhere: "elsewhere",
  idle: "idle",
  empty: "empty",
};

export const STATES = Object.keys(STATE_WORDS) as State[];

/** A session's state and activity in words alone, without what is known beside them. */
export function stateWords(session: Session): string {
  const word = STATE_WORDS[session.state];
  return session.activity ? `${word}, ${session.activity}` : word;
}

/** A session's state as people see it. `now` is in epoch seconds. */
export function sayState(session: Session, now: number): Said {
  const word = STATE_WORDS[session.state];
  switch (session.state) {
    case "live":
      return sayLive(session, now);
    case "pending":
      return { sign: "◌", colour: "grey", word, words: session.silence === null ? word : "unconfirmed" };
    case "idle": {
      const since = session.updated_at === null ? "" : ` ${age(now - session.updated_at)}`;
      return { sign: "○", colour: "grey", word, words: `${word}${since}` };
    }
    case "orphaned": {
      const at = session.updated_at ?? session.turn_started_at;
      return {
        sign: "✖",
        colour: "red",
        word,
        words: at === null ? `${word} in a turn` : `${word} in a turn, ${clock(at, now)}`,
        short: at === null ? word : `${word} ${clock(at, now)}`,
      };
    }
    case "unknown": {
      const pids = session.maybe_pids;
      const words = pids.length ? `maybe open in pid ${pids.join(", ")}` : word;
      return { sign: "?", colour: "violet", word, words };
    }
    case "elsewhere":
      return { sign: "⇄", colour: "grey", word, words: session.elsewhere ?? word };
    case "empty":
      return { sign: "·", colour: "faint", word, words: "nothing to resume" };
  }
}

function sayLive(session: Session, now: number): Said {
  const span = session.turn_started_at === null ? "" : ` ${age(now - session.turn_started_at)}`;
  const quiet = session.updated_at === null ? "" : ` ${age(now - session.updated_at)}`;
  switch (session.activity) {
    case "waiting": {
      const what = session.waits_for ? `waits${span}: ${session.waits_for}` : `waits for you${span}`;
      return { sign: "◆", colour: "amber", word: "waiting", words: what, short: `waits${span}` };
    }
    case "busy":
      return { sign: "◐", colour: "blue", word: "busy", words: `busy${span}` };
    case "ready":
      return { sign: "●", colour: "green", word: "ready", words: `ready${quiet}` };
    case null:
      return { sign: "●", colour: "green", word: "live", words: `live${quiet}` };
  }
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
  refused: "is no valid claim",
};

export function sayVerdict(verdict: string): string {
  return VERDICTS[verdict] ?? verdict;
}

/** What a refusal is about, as a heading; its sentence comes from the server. */
const REFUSALS: Record<string, string> = {
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
};

export function sayRefusal(reason: string): string {
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
  return { reason, message: message ?? session.reason, remedy, commands: commands ?? [], loss: loss ?? null };
}

export function titleOf(session: Session): string {
  return session.title?.trim() || "(untitled)";
}
