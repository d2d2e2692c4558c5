/** A terminal's connection against a real WebSocket: it comes back at its byte, keeps what is typed, and takes gaps. */
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { openPageAt } from "./browser.ts";
import { Server, until, type Socket } from "./server.ts";

const server = new Server();
await server.start();
openPageAt(server.origin);
const { enter } = await import("../src/server/door.ts");
const { Connection } = await import("../src/terminal/connection.ts");

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A screen that notes what it is told. */
class Noted {
  text = "";
  resets = 0;
  lost = 0;
  status: number | null | undefined;
  write(part: Uint8Array, _replay: boolean, done: () => void): void {
    this.text += new TextDecoder().decode(part);
    done();
  }
  reset(): void {
    this.resets += 1;
    this.text = "";
  }
  size(): void {}
  wanted(): { columns: number; rows: number } {
    return { columns: 80, rows: 24 };
  }
  changed(): void {}
  maybeLost(count: number): void {
    this.lost = count;
  }
  exit(status: number | null): void {
    this.status = status;
  }
  failed(): void {}
  loggedOut(): void {}
}

let screen: Noted;
let connection: InstanceType<typeof Connection>;

function connect(kept = ""): Promise<Socket> {
  screen = new Noted();
  const attached = server.nextSocket();
  const address = `${server.origin.replace("http", "ws")}/api/tabs/t/terminal`;
  connection = new Connection(address, screen, bytes(kept));
  return attached;
}

/** The server's part of an attach: it hears what is wanted, and says where the stream begins. */
async function accept(socket: Socket, offset: number, terminal = "one"): Promise<unknown> {
  const wanted = await socket.next();
  socket.say({ attached: { offset, oldest: 0, head: offset, columns: 80, rows: 24, terminal } });
  await until(() => connection.phase === "attached", "attached");
  return wanted;
}

before(() => enter(server.code));
after(() => server.stop());
afterEach(() => connection.close());

test("it comes back at the byte it had, and nothing is on the screen twice", async () => {
  const first = await connect();
  assert.deepEqual(await accept(first, 100), {
    attach: null,
    columns: 80,
    rows: 24,
    visible: true,
    terminal: null,
  });
  first.output(0, 100, "hello");
  await until(() => screen.text === "hello", "the output");
  const again = server.nextSocket();
  first.destroy();
  const second = await again;
  const wanted = (await accept(second, 105)) as { attach: number; terminal: string };
  assert.deepEqual([wanted.attach, wanted.terminal], [105, "one"]);
  second.output(0, 103, "lo, you");
  await until(() => screen.text.endsWith("you"), "the rest");
  assert.equal(screen.text, "hello, you");
  assert.equal(screen.resets, 1); // for the first attach alone
});

test("what is typed during a short break is sent when it is over", async () => {
  const first = await connect();
  await accept(first, 0);
  const again = server.nextSocket();
  first.destroy();
  await until(() => connection.phase === "waiting", "the break");
  assert.ok(connection.type(bytes("ls\r"), false));
  assert.equal(connection.kept.length, 3);
  const second = await again;
  await accept(second, 0);
  assert.equal(await second.nextTyped(), "ls\r");
  assert.equal(connection.kept.length, 0);
});

test("what was typed and not confirmed when it broke may be lost, and that is said", async () => {
  const socket = await connect();
  await accept(socket, 0);
  connection.type(bytes("rm x"), false);
  assert.equal(await socket.nextTyped(), "rm x");
  socket.destroy(); // no pong came
  await until(() => screen.lost === 4, "the warning");
});

test("what a pong confirmed is not said to be lost", async () => {
  const socket = await connect();
  await accept(socket, 0);
  connection.type(bytes("ok"), false);
  let said: unknown;
  do said = await socket.next();
  while (Buffer.isBuffer(said) || !("ping" in (said as object)));
  assert.deepEqual(said, { ping: 2 });
  socket.say({ pong: 2 });
  socket.output(0, 0, "."); // behind the pong: once it is on the screen, the pong was taken
  await until(() => screen.text === ".", "the pong");
  socket.destroy();
  await until(() => connection.phase !== "attached", "the break");
  assert.equal(screen.lost, 0);
});

test("what was typed for an earlier terminal is sent only when the person says so", async () => {
  const socket = await connect("old words");
  await accept(socket, 0);
  assert.equal(connection.askToSend, true);
  assert.ok(connection.type(bytes("!"), false)); // behind the other, not before it
  connection.sendKept();
  assert.equal(await socket.nextTyped(), "old words!");
});

test("another terminal in the tab gets neither the old offset nor what was typed", async () => {
  const first = await connect();
  await accept(first, 50);
  const again = server.nextSocket();
  first.destroy();
  await until(() => connection.phase === "waiting", "the break");
  connection.type(bytes("for the old one"), false);
  const refused = await again;
  assert.equal(((await refused.next()) as { terminal: string }).terminal, "one");
  const third = server.nextSocket();
  refused.close(4409);
  const wanted = (await accept(await third, 0, "two")) as { attach: null; terminal: null };
  assert.deepEqual([wanted.attach, wanted.terminal], [null, null]);
  assert.equal(connection.askToSend, true);
});

test("a gap clears the screen, and output goes on behind it", async () => {
  const socket = await connect();
  await accept(socket, 0);
  socket.output(0, 0, "old");
  socket.say({ gap: { offset: 3, end: 1000 } });
  socket.output(0, 1000, "new");
  await until(() => screen.text === "new", "what follows the gap");
  const again = server.nextSocket();
  socket.destroy();
  assert.equal(((await (await again).next()) as { attach: number }).attach, 1003);
});

test("more than can be kept is refused, and so is what is typed at an end", async () => {
  const socket = await connect();
  await accept(socket, 0);
  socket.destroy();
  await until(() => connection.phase === "waiting", "the break");
  assert.equal(connection.type(new Uint8Array(64 * 1024 + 1), false), false);
  connection.close();
  const other = await connect();
  await accept(other, 0);
  other.say({ exit: 3 });
  await until(() => connection.phase === "ended", "the end");
  assert.equal(screen.status, 3);
  assert.equal(connection.type(bytes("x"), false), false);
  other.close(4410);
});

test("the server is told how far the screen is, before it has to wait", async () => {
  const socket = await connect();
  await accept(socket, 0);
  const part = "x".repeat(60_000);
  for (let at = 0; at < 3; at += 1) socket.output(0, at * part.length, part);
  let said: unknown;
  do said = await socket.next();
  while (Buffer.isBuffer(said) || !("ack" in (said as object)));
  assert.deepEqual(said, { ack: 180_000 });
});
