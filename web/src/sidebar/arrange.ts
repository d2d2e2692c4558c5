/** The groups of the sidebar: who needs you, then live by project, then the rest. The order is the server's. Pure. */
import { baseName } from "../format.ts";
import type { Session, State } from "../types.ts";

export interface Group {
  key: string;
  title: string;
  /** The full directory of a project, else null. */
  path: string | null;
  folded: boolean;
  /** Where it is among the groups: the server's place for the sessions in it. */
  place: number;
  refs: string[];
}

export interface Filter {
  text: string;
  states: ReadonlySet<State>;
  providers: ReadonlySet<string>;
}

const NEEDS = "needs";

/** Which group a session belongs to. A loss that was dismissed is among the idle ones. */
export function groupOf(session: Session): string {
  if (session.needs_you) return NEEDS;
  switch (session.state) {
    case "live":
    case "pending":
      return `dir:${session.work_dir ?? ""}`;
    case "orphaned":
      return "~idle";
    default:
      return `~${session.state}`;
  }
}

/** The server's order, the same as that of `corral ps`. */
function within(a: Session, b: Session): number {
  for (const [index, place] of a.order.entries()) {
    const other = b.order[index] ?? 0;
    if (place !== other) return place - other;
  }
  return a.ref < b.ref ? -1 : 1;
}

/** Those that need a person, in the order in which the sidebar has them. */
export function whoNeedsYou(sessions: Iterable<Session>): Session[] {
  return [...sessions].filter((session) => session.needs_you).sort(within);
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
export function arrange(
  sessions: Iterable<Session>,
  filter: Filter,
  held: Group[] | null,
  wordOf: (state: string) => string,
): Group[] {
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
      group = { ...describe(key, wordOf), place: session.order[0] ?? 0, refs: [] };
      group.folded &&= !open;
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

function describe(key: string, wordOf: (state: string) => string): Omit<Group, "place" | "refs"> {
  if (key === NEEDS) return { key, title: "Needs you", path: null, folded: false };
  if (!key.startsWith("dir:")) return { key, title: wordOf(key.slice(1)), path: null, folded: true };
  const path = key.slice(4);
  return { key, title: baseName(path) || "no directory", path, folded: false };
}

/** In the order of their first sessions; projects by name, so that none moves when a session of it starts. */
function ranked(groups: Group[]): Group[] {
  const name = (group: Group): string => `${baseName(group.path ?? "").toLowerCase()}\0${group.key}`;
  return groups.sort((a, b) => a.place - b.place || (name(a) < name(b) ? -1 : 1));
}
