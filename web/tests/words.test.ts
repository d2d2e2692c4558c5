/** What the pure parts promise: order that does not jump, numbers people can read, frames that survive a round trip. */
import assert from "node:assert/strict";
import test from "node:test";
import { arrange, whoNeedsYou, type Filter, type Group } from "../src/sidebar/arrange.ts";
import { Backoff } from "../src/server/backoff.ts";
import { age, money, shellWord, shortPath, tokens } from "../src/format.ts";
import { isAnswer, isPointer, LARGEST_INPUT, readOutput, writeInput } from "../src/terminal/protocol.ts";
import type { Session, UsageRow } from "../src/types.ts";
import { daysBetween, sayOrigins, stack } from "../src/usage/stacks.ts";
import { Watchdog } from "../src/server/watchdog.ts";
import { sayState } from "../src/session/words.ts";
import { session } from "./sample.ts";

const ALL: Filter = { text: "", states: new Set(), providers: new Set() };

const word = (state: string): string => `the word for ${state}`;
const group = (sessions: Session[], filter = ALL, held: Group[] | null = null): Group[] =>
  arrange(sessions, filter, held, word);
const refs = (sessions: Session[], filter = ALL): string[][] =>
  group(sessions, filter).map(({ title, refs }) => [title, ...refs]);

test("who needs you comes first, then live by project, then the rest folded, in the server's order and words", () => {
  const sessions = [
    session("idle", { state: "idle", order: [5, -100] }),
    session("elsewhere", { state: "elsewhere", order: [4, -100] }),
    session("live"),
    session("lost", { state: "orphaned", needs_you: true, order: [1, -900] }),
    session("other", { work_dir: "/src/shop", order: [2, -300] }),
    session("waiting", { needs_you: true, order: [0, -100] }),
  ];
  assert.deepEqual(refs(sessions), [
    ["Needs you", "waiting", "lost"],
    ["api", "live"],
    ["shop", "other"],
    ["the word for elsewhere", "elsewhere"],
    ["the word for idle", "idle"],
  ]);
  assert.deepEqual(
    group(sessions).map(({ folded }) => folded),
    [false, false, false, true, true],
  );
});

test("the key for the next that needs you follows the order of the sidebar", () => {
  const sessions = [
    session("lost long ago", { needs_you: true, order: [1, -100] }),
    session("lost now", { needs_you: true, order: [1, -900] }),
    session("waiting", { needs_you: true, order: [0, -100] }),
    session("ready"),
  ];
  const [needs] = group(sessions);
  assert.deepEqual(needs?.refs, ["waiting", "lost now", "lost long ago"]);
  assert.deepEqual(
    whoNeedsYou(sessions).map((one) => one.ref),
    needs?.refs,
  );
});

test("a loss that needs nobody any more is among the idle ones", () => {
  assert.deepEqual(refs([session("lost", { state: "orphaned", order: [5, -100] })]), [["the word for idle", "lost"]]);
});

test("a word has its age or its time of day beside it", () => {
  const at = new Date(2026, 10, 15, 9, 14).getTime() / 1000;
  const say = (changes: Partial<Session>): string => sayState(session("a", changes), at + 125).words;
  assert.equal(say({ word: "ready" }), "ready");
  assert.equal(say({ word: "busy", since: at }), "busy 2 min");
  assert.equal(say({ word: "lost", lost_at: at }), "lost 09:14");
});

test("two directories of one name are two projects", () => {
  const groups = group([session("a", { work_dir: "/x/api" }), session("b", { work_dir: "/y/api" })]);
  assert.deepEqual(
    groups.map(({ path }) => path),
    ["/x/api", "/y/api"],
  );
});

test("nothing moves while it is looked at: a change of state keeps its place, a new session goes to the end", () => {
  const held = group([session("a", { order: [2, -3] }), session("b", { order: [2, -2] })]);
  const after = [
    session("new", { order: [2, -9] }),
    session("b", { needs_you: true, order: [0, -2] }),
    session("a", { state: "idle", order: [5, -3] }),
  ];
  assert.deepEqual(
    group(after, ALL, held).map(({ refs }) => refs),
    [["a", "b", "new"]],
  );
  assert.deepEqual(refs(after), [
    ["Needs you", "b"],
    ["api", "new"],
    ["the word for idle", "a"],
  ]);
});

test("search takes all words, in any field", () => {
  const sessions = [
    session("a", { title: "Fix rounding" }),
    session("b", { title: "Fix tests", provider: "qwen-code" }),
  ];
  assert.deepEqual(refs(sessions, { ...ALL, text: "fix QWEN" }), [["api", "b"]]);
  assert.deepEqual(refs(sessions, { ...ALL, providers: new Set(["kimi-cli"]) }), [["api", "a"]]);
});

test("numbers are short and never hide money", () => {
  assert.deepEqual([0, 59, 90, 7200, 200000].map(age), ["0 s", "59 s", "1 min", "2 h", "2 d"]);
  assert.deepEqual([999, 1000, 41234, 999_499, 1_500_000].map(tokens), ["999", "1.0 k", "41 k", "999 k", "1.5 M"]);
  assert.equal(money("0.001", "USD"), "<$0.01");
  assert.equal(money("0", "USD"), "$0.00");
  assert.equal(money(null, "USD"), "unpriced");
  assert.equal(money("3.1", "EUR"), "EUR 3.10");
});

test("a home is written ~ and only a home", () => {
  assert.equal(shortPath("/home/ada/src", "/home/ada"), "~/src");
  assert.equal(shortPath("/home/adam", "/home/ada"), "/home/adam");
});

test("waits grow, have jitter and an end", () => {
  const backoff = new Backoff();
  const waits = Array.from({ length: 10 }, () => backoff.next(() => 1));
  assert.deepEqual(waits.slice(0, 3), [250, 500, 1000]);
  assert.equal(waits[9], 8000);
  backoff.reset();
  assert.equal(
    backoff.next(() => 0),
    125,
  );
});

test("frames carry kind, offset and bytes", () => {
  const frame = new Uint8Array([1, 0, 0, 0, 1, 0, 0, 0, 5, 104, 105]);
  const output = readOutput(frame.buffer);
  assert.deepEqual([output?.kind, output?.offset, output?.bytes.length], [1, 2 ** 32 + 5, 2]);
  assert.equal(readOutput(new ArrayBuffer(3)), null);
});

test("long input is cut into frames that the server takes, with nothing lost", () => {
  const bytes = Uint8Array.from({ length: LARGEST_INPUT * 2 + 5 }, (_, index) => index % 251);
  const frames = [...writeInput(bytes, false)];
  assert.deepEqual(
    frames.map((frame) => frame.length),
    [LARGEST_INPUT + 1, LARGEST_INPUT + 1, 6],
  );
  assert.deepEqual(
    frames.flatMap((frame) => [...frame.subarray(1)]),
    [...bytes],
  );
});

test("a terminal's answers are told apart from keys", () => {
  for (const answer of [
    "\x1b[?1;2c",
    "\x1b[>0;276;0c",
    "\x1b[3;4R",
    "\x1b[0n",
    "\x1b[?2004;1$y",
    "\x1b]11;rgb:0/0/0\x07",
    "\x1bP1$r0m\x1b\\",
    "\x1b[I",
    "\x1b[O",
  ])
    assert.ok(isAnswer(answer), JSON.stringify(answer));
  for (const key of ["a", "\r", "\x1b", "\x1b[A", "\x1bOP", "\x1b[15~", "\x1b[1;5C", "\x1bd", "\x1b[Oa"])
    assert.ok(!isAnswer(key) && !isPointer(key), JSON.stringify(key));
  for (const pointed of ["\x1b[<0;12;3M", "\x1b[<35;12;3m", "\x1b[M !!"])
    assert.ok(isPointer(pointed) && !isAnswer(pointed), JSON.stringify(pointed));
});

test("days are stacked by model, with gaps and the rest added up", () => {
  const row = (day: string, model: string, amount: string): UsageRow => ({
    key: { day, model },
    events: 1,
    tokens: { input: 1, cache_read: 0, cache_write: 0, cache_write_1h: 0, output: 0, reasoning: 0 },
    cost: { amount, currency: "USD", unpriced_events: 0, assumed_events: 0 },
  });
  const days = daysBetween("2026-02-27", "2026-03-01");
  assert.deepEqual(days, ["2026-02-27", "2026-02-28", "2026-03-01"]);
  const rows = [row("2026-02-27", "a", "1"), row("2026-03-01", "b", "5"), row("2026-03-01", "a", "2")];
  const stacks = stack(rows, days, (one) => Number(one.cost.amount));
  assert.deepEqual(stacks.series, [
    { name: "b", values: [0, 0, 5] },
    { name: "a", values: [1, 0, 2] },
  ]);
  assert.equal(stacks.most, 7);
  const many = Array.from({ length: 10 }, (_, index) => row("2026-02-27", `m${index}`, `${20 - index}`));
  const names = stack(many, days, (one) => Number(one.cost.amount)).series.map((one) => one.name);
  assert.equal(names.length, 8);
  assert.equal(names[7], "others");
});

test("money says whose prices it was made with, of which day, and what is assumed", () => {
  const listed = { model: "k2", listed_as: "k2", source: "a list", dated: "2026-11-01", assumed: false };
  const hidden = { ...listed, model: "auto", assumed: true };
  const own = { ...listed, model: "mine", listed_as: "mine", source: "own price", dated: null };
  assert.equal(sayOrigins([]), "No price is known");
  assert.equal(sayOrigins([listed, { ...listed, model: "k3" }]), "Prices: a list of 2026-11-01");
  assert.equal(sayOrigins([listed, hidden, own], "auto"), "Prices: k2, a list of 2026-11-01 (assumed)");
  assert.equal(sayOrigins([listed, own], "mine"), "Prices: your own");
  assert.equal(sayOrigins([listed], null), "No price is known");
});

test("a command to copy means the same to a shell", () => {
  const words = ["tmux", "-S", "/tmp/t-0/my socket", "select-window", "-t", "%1", ";", "attach-session", "it's"];
  const said = "tmux -S '/tmp/t-0/my socket' select-window -t %1 ';' attach-session 'it'\\''s'";
  assert.equal(words.map(shellWord).join(" "), said);
});

test("silence is told when a beat is overdue, and by its age", () => {
  let now = 0;
  const watchdog = new Watchdog(() => now);
  now = 60_000;
  assert.equal(watchdog.isOverdue, false); // nobody said that something would come
  watchdog.expect(2);
  watchdog.heard();
  now += 4900;
  assert.equal(watchdog.isOverdue, false);
  now += 100;
  assert.equal(watchdog.isOverdue, true);
  now += 7000;
  assert.equal(watchdog.age, 12);
  watchdog.heard();
  assert.equal(watchdog.isOverdue, false);
});
