/** The store against a real server on loopback: events in, state out. */
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { openPageAt } from "./browser.ts";
import { session, survey, tab } from "./sample.ts";
import { Server, until } from "./server.ts";

const server = new Server();
await server.start();
openPageAt(server.origin);
const { store } = await import("../src/store/store.svelte.ts");

const refs = (): string[] => [...store.sessions.keys()];

function say(sessions: ReturnType<typeof session>[], tabs: ReturnType<typeof tab>[], event: number): void {
  server.answers["/api/sessions"] = survey(sessions, event);
  server.answers["/api/tabs"] = { tabs };
}

before(async () => {
  say([session("a")], [tab("t", { ref: "a" })], 7);
  assert.equal(await store.logIn(server.code), null);
  await until(() => store.connected, "the stream");
});
beforeEach(async () => {
  say([session("a")], [tab("t", { ref: "a" })], 7);
  await store.begin();
  await until(() => store.connected && server.followed.length > 0, "the stream");
  // A stream that has just been opened may not be listened to yet.
  await until(() => (server.publish("hello", { version: "2", event: 7, beat_s: 2 }), store.version === "2"), "hello");
});
after(() => server.stop());

test("the snapshot is what the server said, and events are followed from its number on", () => {
  assert.equal(store.phase, "ready");
  assert.equal(store.host, "devbox");
  assert.deepEqual(refs(), ["a"]);
  assert.equal(store.tabOf(session("a"))?.tab, "t");
  assert.equal(server.followed.at(-1), "/api/events?after=7");
});

test("a session appears, changes and goes", async () => {
  server.publish("session", { change: "appeared", session: session("b") });
  await until(() => store.sessions.has("b"), "b");
  server.publish("session", { change: "ended", session: session("b", { state: "idle" }) });
  await until(() => store.sessions.get("b")?.state === "idle", "b is idle");
  server.publish("session", { change: "gone", session: session("b", { state: "idle" }) });
  await until(() => !store.sessions.has("b"), "b is gone");
  assert.deepEqual(refs(), ["a"]);
});

test("who begins to need the person is announced once, and listed", async () => {
  const waiting = session("a", { word: "waiting", needs_you: true, title: "Rounding" });
  server.publish("session", { change: "changed", session: waiting });
  await until(() => store.needing.length === 1, "it needs somebody");
  assert.equal(store.announcement, "Rounding needs you: waiting.");
  server.publish("session", { change: "changed", session: { ...waiting, title: "Other" } });
  await until(() => store.sessions.get("a")?.title === "Other", "its title");
  assert.equal(store.announcement, "Rounding needs you: waiting.");
});

test("tabs are in their order, and a closed one is gone", async () => {
  server.publish("tab", { change: "opened", tab: tab("first", { order: -1 }) });
  await until(() => store.tabList.length === 2, "two tabs");
  assert.deepEqual(
    store.tabList.map((one) => one.tab),
    ["first", "t"],
  );
  server.publish("tab", { change: "closed", tab: tab("first") });
  await until(() => store.tabList.length === 1, "one tab");
});

test("usage goes to the sessions that it is of, and to nobody else", async () => {
  const used = { tokens: 5, cost: "1", currency: "USD", today_tokens: 5, today_cost: "1", assumed: false };
  const today = { cost: "1", currency: "USD", tokens: 5, days: [], losses: [] };
  server.publish("usage", { usage_today: today, sessions: { a: used, nobody: used } });
  await until(() => store.usageToday !== null, "usage");
  assert.deepEqual(store.sessions.get("a")?.usage, used);
  assert.deepEqual(refs(), ["a"]);
});

test("restoring all is counted, and said once it is over", async () => {
  server.publish("restore", { done: 1, total: 2, failed: 0 });
  await until(() => store.restore?.done === 1, "the progress");
  server.publish("restore", { done: 2, total: 2, failed: 1 });
  await until(() => store.restore === null, "the end");
  assert.equal(store.notices.at(-1)?.text, "1 of 2 tabs are back; 1 say why not.");
});

test("what a newer server says besides changes nothing, and what follows is heard", async () => {
  server.publish("of the future", { session: session("c") });
  server.publish("degraded", { degraded: [{ provider: "p", step: "s", reason: "r" }] });
  await until(() => store.degraded.length === 1, "what follows");
  assert.deepEqual(refs(), ["a"]);
});

test("after a break the stream goes on behind the last event", async () => {
  server.publish("session", { change: "appeared", session: session("b") }, 9);
  await until(() => store.sessions.has("b"), "b");
  const before = server.followed.length;
  server.cut();
  await until(() => !store.connected, "the break");
  await until(() => store.connected && server.followed.length > before, "the stream is back");
  assert.equal(server.followed.at(-1), "/api/events?after=9");
  assert.ok(store.sessions.has("b"));
});

test("a resync fetches everything again", async () => {
  server.publish("session", { change: "appeared", session: session("b") });
  await until(() => store.sessions.has("b"), "b");
  say([session("c")], [], 20);
  server.publish("resync", { reason: "more happened than could be sent" });
  await until(() => store.sessions.has("c"), "c");
  assert.deepEqual(refs(), ["c"]);
  assert.equal(store.tabList.length, 0);
  await until(() => server.followed.at(-1) === "/api/events?after=20", "the new number");
});
