/** The order of the sidebar: who needs you, then live by project, then the rest. Pure. */
import { baseName } from "./format.ts";
import type { Session, State } from "./types.ts";

export interface Group {
  key: string;
  title: string;
  /** The full directory of a project, else null. */
  path: string | null;
  folded: boolean;
  refs: string[];
}

export interface Filter {
  text: string;
  states: ReadonlySet<State>;
  providers: ReadonlySet<string>;
}

const NEEDS = "needs";
const FOLDED: Record<string, string> = {
  "~unknown": "maybe open",
  "~elsewhere": "elsewhere",
  "~idle": "idle",
  "~empty": "empty",
};

export function needsYou(session: Session): boolean {
  if (session.dismissed) return false;
  return session.state === "orphaned" || (session.state === "live" && session.activity === "waiting");
}

/** Which group a session belongs to. Groups are shown in the order of `groupRank`. */
export function groupOf(session: Session): string {
  if (needsYou(session)) return NEEDS;
  switch (session.state) {
    case "live":
    case "pending":
      return `dir:${session.work_dir ?? ""}`;
    case "unknown":
      return "~unknown";
    case "elsewhere":
      return "~elsewhere";
    case "orphaned":
    case "idle":
      return "~idle";
    case "empty":
      return "~empty";
  }
}

function groupRank(key: string): [number, string] {
  if (key === NEEDS) return [0, ""];
  if (key.startsWith("dir:")) return [1, `${baseName(key).toLowerCase()}\0${key}`];
  return [2 + Object.keys(FOLDED).indexOf(key), ""];
}

/** Within a group: by what does not change while it stays there, so that nothing jumps. */
function within(a: Session, b: Session): number {
  const rank = (session: Session): number => (session.state === "orphaned" ? 1 : 0);
  const since = (session: Session): number =>
    (session.state === "live" || session.state === "pending" ? session.started_at : session.updated_at) ?? 0;
  return rank(a) - rank(b) || since(b) - since(a) || (a.ref < b.ref ? -1 : 1);
}

/** Those that need a person, in the order in which the sidebar has them. */
export function whoNeedsYou(sessions: Iterable<Session>): Session[] {
  return [...sessions].filter(needsYou).sort(within);
}

export function matches(session: Session, filter: Filter): boolean {
  if (filter.states.size && !filter.states.has(session.state)) return false;
  if (filter.providers.size && !filter.providers.has(session.provider)) return false;
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const where = [session.title, session.work_dir, session.provider, session.session_id, session.model, session.pid]
    .join("\n")
    .toLowerCase();
  return words.every((word) => where.includes(word));
}

/**
 * The groups to show. With `held`, the arrangement a person is looking at, every session that is in it stays where
 * it is, whatever became of it, and new ones go to the end of their group.
 */
export function arrange(sessions: Iterable<Session>, filter: Filter, held: Group[] | null): Group[] {
  const open = filter.text !== "" || filter.states.size > 0;
  const placed = new Map<string, Group>();
  const known = new Set<string>();
  for (const group of held ?? []) {
    placed.set(group.key, { ...group, refs: [...group.refs] });
    for (const ref of group.refs) known.add(ref);
  }
  const added = [...sessions].filter((session) => !known.has(session.ref) && matches(session, filter)).sort(within);
  for (const session of added) {
    const key = groupOf(session);
    let group = placed.get(key);
    if (!group) {
      const path = key.startsWith("dir:") ? key.slice(4) : null;
      const title =
        key === NEEDS ? "Needs you" : path === null ? (FOLDED[key] ?? "") : baseName(path) || "no directory";
      group = { key, title, path, folded: key in FOLDED && !open, refs: [] };
      placed.set(key, group);
    }
    group.refs.push(session.ref);
  }
  const groups = [...placed.values()];
  if (held)
    return groups
      .filter((group) => held.some((old) => old.key === group.key))
      .concat(ranked(groups.filter((group) => !held.some((old) => old.key === group.key))));
  return ranked(groups);
}

function ranked(groups: Group[]): Group[] {
  return groups.sort((a, b) => {
    const [x, y] = [groupRank(a.key), groupRank(b.key)];
    return x[0] - y[0] || (x[1] < y[1] ? -1 : x[1] > y[1] ? 1 : 0);
  });
}
