/** A server on loopback that a page can log in to: it proves itself as corral does, and says what the test wants said. */
import { createHash, createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";

const CODE = "a-code-of-a-link";
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const sign = (key: Buffer, words: string): string => createHmac("sha256", key).update(words).digest("hex");

export class Server {
  readonly code = CODE;
  /** What a GET of a path is answered with. */
  answers: Record<string, unknown> = {};
  /** The addresses of all requests for events. */
  followed: string[] = [];
  sockets: Socket[] = [];

  #http = createServer((request, response) => void this.#answer(request, response));
  #streams = new Set<ServerResponse>();
  #keys = new Map<string, Buffer>();
  #said = new Map<string, { login: string; words: string }>();
  #whenSocket: ((socket: Socket) => void)[] = [];

  async start(port = 0): Promise<void> {
    this.#http.on("upgrade", (request, socket) => this.#upgrade(request, socket));
    this.#http.listen(port, "127.0.0.1");
    await once(this.#http, "listening");
    const key = Buffer.from(CODE);
    this.#keys.set(sign(key, "corral code name").slice(0, 32), Buffer.from(sign(key, "corral code key"), "hex"));
  }

  stop(): void {
    this.cut();
    this.#http.close();
    this.#http.closeAllConnections();
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  /** Send an event to everybody who follows. */
  publish(event: string, data: unknown, id?: number): void {
    const text = `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
    for (const stream of this.#streams) stream.write(text);
  }

  /** The connections break, as a network does. */
  cut(): void {
    for (const stream of this.#streams) stream.destroy();
    this.#streams.clear();
    for (const socket of this.sockets) socket.destroy();
  }

  /** The next terminal that is attached. */
  nextSocket(): Promise<Socket> {
    return new Promise((resolve) => this.#whenSocket.push(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.origin);
    let body = "";
    for await (const part of request) body += part;
    const asked = body ? (JSON.parse(body) as Record<string, string>) : {};
    if (url.pathname === "/api/events") {
      this.followed.push(`${url.pathname}${url.search}`);
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.flushHeaders();
      this.#streams.add(response);
      return;
    }
    const answer = this.#prove(url.pathname, asked) ?? this.answers[url.pathname];
    response.writeHead(answer === undefined ? 404 : 200, { "Content-Type": "application/json" });
    response.end(JSON.stringify(answer ?? { error: { reason: "no_such", message: "there is no such thing" } }));
  }

  /** src/corral/server/proofs.py says the same words. */
  #prove(path: string, asked: Record<string, string>): unknown {
    const nonce = randomBytes(16).toString("hex");
    switch (path) {
      case "/api/hello": {
        const login = asked["login"] ?? "";
        const key = this.#keys.get(login);
        if (!key) return undefined;
        const words = `${this.origin}\n${login}\n${asked["nonce"]}\n${nonce}`;
        this.#said.set(nonce, { login, words });
        return { nonce, proof: sign(key, `corral server\n${words}`) };
      }
      case "/api/prove": {
        const said = this.#said.get(asked["nonce"] ?? "");
        const key = said && this.#keys.get(said.login);
        if (!said || !key || asked["proof"] !== sign(key, `corral page\n${said.words}`)) return undefined;
        const salt = randomBytes(16).toString("hex");
        if (said.login !== "login") this.#keys.set("login", Buffer.from(sign(key, `corral login key\n${salt}`), "hex"));
        return { token: "a-token", seconds: 300, login: "login", salt };
      }
      case "/api/tickets": {
        const ticket = randomBytes(8).toString("hex");
        const key = this.#keys.get("login");
        if (!key) return undefined;
        return { ticket, proof: sign(key, `corral ticket\n${this.origin}\nlogin\n${asked["nonce"]}\n${ticket}`) };
      }
      default:
        return undefined;
    }
  }

  #upgrade(request: IncomingMessage, stream: Duplex): void {
    const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}${GUID}`).digest("base64");
    stream.write(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
        `Sec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: corral\r\n\r\n`,
    );
    const socket = new Socket(stream);
    this.sockets.push(socket);
    for (const resolve of this.#whenSocket.splice(0)) resolve(socket);
  }
}

/** The server's end of a WebSocket (RFC 6455): whole frames, which is all that browsers send here. */
export class Socket {
  #stream: Duplex;
  #rest = Buffer.alloc(0);
  #messages: (string | Buffer)[] = [];
  #waiting: ((message: string | Buffer) => void)[] = [];

  constructor(stream: Duplex) {
    this.#stream = stream;
    stream.on("error", () => {});
    stream.on("data", (part: Buffer) => this.#take(part));
  }

  /** The next message: an object that was text, or bytes. */
  async next(): Promise<unknown> {
    const message =
      this.#messages.shift() ?? (await new Promise<string | Buffer>((resolve) => this.#waiting.push(resolve)));
    return typeof message === "string" ? JSON.parse(message) : message;
  }

  /** The next bytes that were typed, without their flag; what is said as text meanwhile is skipped. */
  async nextTyped(): Promise<string> {
    for (;;) {
      const message = await this.next();
      if (Buffer.isBuffer(message)) return message.subarray(1).toString();
    }
  }

  say(message: object): void {
    this.#send(1, Buffer.from(JSON.stringify(message)));
  }

  output(kind: number, offset: number, text: string): void {
    const head = Buffer.alloc(9);
    head[0] = kind;
    head.writeBigUInt64BE(BigInt(offset), 1);
    this.#send(2, Buffer.concat([head, Buffer.from(text)]));
  }

  close(code: number): void {
    const body = Buffer.alloc(2);
    body.writeUInt16BE(code);
    this.#send(8, body);
    this.#stream.end();
  }

  destroy(): void {
    this.#stream.destroy();
  }

  #send(opcode: number, body: Buffer): void {
    const long = body.length > 125;
    const head = Buffer.alloc(long ? 4 : 2);
    head[0] = 0x80 | opcode;
    head[1] = long ? 126 : body.length;
    if (long) head.writeUInt16BE(body.length, 2);
    this.#stream.write(Buffer.concat([head, body]));
  }

  #take(part: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, part]);
    for (;;) {
      if (this.#rest.length < 2) return;
      const opcode = this.#rest[0]! & 15;
      let size = this.#rest[1]! & 127;
      let at = 2;
      if (size === 126) {
        size = this.#rest.readUInt16BE(2);
        at = 4;
      }
      if (this.#rest.length < at + 4 + size) return;
      const mask = this.#rest.subarray(at, at + 4);
      const body = Buffer.from(
        this.#rest.subarray(at + 4, at + 4 + size).map((byte, index) => byte ^ mask[index % 4]!),
      );
      this.#rest = this.#rest.subarray(at + 4 + size);
      if (opcode !== 1 && opcode !== 2) continue;
      const message = opcode === 1 ? body.toString() : body;
      const waiting = this.#waiting.shift();
      if (waiting) waiting(message);
      else this.#messages.push(message);
    }
  }
}

/** Wait for what the page does by itself; every wait has an end. */
export async function until(test: () => boolean, what: string, seconds = 20): Promise<void> {
  const end = Date.now() + seconds * 1000;
  while (!test()) {
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
