/** One terminal's connection: attaches, comes back at the byte it had, keeps what is typed meanwhile. No screen here. */
import { Backoff } from "../server/backoff.ts";
import { DoorError, forgetToken, socketProtocols } from "../server/door.ts";
import { decode } from "../server/foreign.ts";
import { MODES, readOutput, REPLAY, writeInput, type Control } from "./protocol.ts";

const ATTACH_MS = 10_000;
const PING_MS = 15_000;
const PONG_MS = 10_000;
const ACK_BYTES = 128 * 1024;
const KEPT_BYTES = 64 * 1024;
/** What was typed during a longer break than this is sent only when the person says so. */
const SEND_UNASKED_MS = 20_000;

/** The close code that says: this tab has another terminal by now. */
const REPLACED = 4409;

export type Phase = "connecting" | "attached" | "waiting" | "ended" | "stopped";

export interface Wire {
  /** Put bytes on the screen; call `done` when they are. */
  write(bytes: Uint8Array, replay: boolean, done: () => void): void;
  /** Forget what is on the screen. */
  reset(): void;
  size(columns: number, rows: number): void;
  /** The size that this viewer would like. */
  wanted(): { columns: number; rows: number };
  changed(): void;
  /** Input that was sent and not confirmed when the connection broke. */
  maybeLost(bytes: number): void;
  exit(status: number | null): void;
  failed(message: string): void;
  loggedOut(): void;
}

export class Connection {
  phase: Phase = "connecting";
  /** Typed and not sent, because there was no connection. */
  kept: Uint8Array = new Uint8Array();
  /** The break was long: `sendKept` or `dropKept` decides. */
  askToSend = false;

  #address: string;
  #wire: Wire;
  #socket: WebSocket | null = null;
  /** Counts the tries to connect: what belongs to an earlier one is of no interest any more. */
  #attempt = 0;
  #offset: number | null = null;
  /** Which terminal the offset counts in, and what was typed is meant for. */
  #terminal: string | null = null;
  #acked = 0;
  #visible = true;
  #backoff = new Backoff();
  #retry: ReturnType<typeof setTimeout> | undefined;
  #deadline: ReturnType<typeof setTimeout> | undefined;
  #pinger: ReturnType<typeof setInterval> | undefined;
  #lostAt = 0;
  #sent = 0;
  #confirmed = 0;
  /** The last ping's number is the count of bytes sent before it. */
  #pinged = -1;

  constructor(address: string, wire: Wire, kept: Uint8Array) {
    this.#address = address;
    this.#wire = wire;
    this.kept = kept;
    this.askToSend = kept.length > 0;
    this.#connect();
  }

  close(): void {
    this.#stop("stopped");
  }

  retryNow(): void {
    if (this.phase === "waiting") this.#connect();
  }

  /** Send, or keep until the connection is back. Returns false when it can be neither sent nor kept. */
  type(bytes: Uint8Array, inReplay: boolean): boolean {
    if (this.phase === "attached" && !this.askToSend) {
      this.#send(bytes, inReplay);
      return true;
    }
    if (this.phase === "ended" || this.phase === "stopped") return false;
    if (this.kept.length + bytes.length > KEPT_BYTES) return false;
    const kept = new Uint8Array(this.kept.length + bytes.length);
    kept.set(this.kept);
    kept.set(bytes, this.kept.length);
    this.kept = kept;
    this.#wire.changed();
    return true;
  }

  /** What the terminal itself says: answers, focus, where the pointer is. Worth nothing later. */
  answer(bytes: Uint8Array, inReplay: boolean): void {
    if (this.phase === "attached") for (const frame of writeInput(bytes, inReplay)) this.#socket?.send(frame);
  }

  sendKept(): void {
    this.askToSend = false;
    const kept = this.kept;
    this.kept = new Uint8Array();
    if (kept.length) this.#send(kept, false);
    this.#wire.changed();
  }

  dropKept(): void {
    this.askToSend = false;
    this.kept = new Uint8Array();
    this.#wire.changed();
  }

  resize(columns: number, rows: number): void {
    this.#say({ resize: [columns, rows] });
  }

  setVisible(visible: boolean): void {
    if (visible === this.#visible) return;
    this.#visible = visible;
    this.#say({ visible });
  }

  #connect(): void {
    clearTimeout(this.#retry);
    const attempt = (this.#attempt += 1);
    this.#deadline = setTimeout(() => attempt === this.#attempt && this.#lost(this.#socket, 1006), ATTACH_MS);
    socketProtocols().then(
      (protocols) => attempt === this.#attempt && this.#open(protocols),
      (error: unknown) =>
        attempt === this.#attempt && this.#lost(null, error instanceof DoorError && error.locked ? 4401 : 1006),
    );
    this.#set("connecting");
  }

  #open(protocols: string[]): void {
    const socket = new WebSocket(this.#address, protocols);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    socket.onopen = () =>
      this.#say({
        attach: this.#offset,
        ...this.#wire.wanted(),
        visible: this.#visible,
        terminal: this.#terminal,
      });
    socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
      if (this.#socket !== socket) return;
      if (typeof event.data === "string") this.#takeControl(decode<Control>(event.data));
      else this.#takeOutput(event.data);
    };
    socket.onclose = (event) => this.#lost(socket, event.code);
  }

  #takeControl(control: Control): void {
    if (control.attached) this.#attached(control.attached);
    if (control.gap) {
      this.#wire.reset();
      this.#offset = control.gap.end;
      this.#acked = control.gap.end;
    }
    if (control.size) this.#wire.size(control.size.columns, control.size.rows);
    if (control.pong !== undefined) this.#takePong(control.pong);
    if (control.failed) this.#wire.failed(control.failed.message);
    if (control.exit !== undefined) {
      this.#wire.exit(control.exit);
      this.#set("ended");
    }
  }

  #attached(attached: NonNullable<Control["attached"]>): void {
    clearTimeout(this.#deadline);
    this.#backoff.reset();
    this.#wire.size(attached.columns, attached.rows);
    if (attached.offset !== this.#offset) this.#wire.reset(); // in that size: a screen keeps traces of what it had before
    this.#offset = attached.offset;
    this.#terminal = attached.terminal ?? null;
    this.#acked = attached.offset;
    this.#sent = this.#confirmed = 0;
    this.#pinged = -1;
    this.#pinger = setInterval(() => this.#ping(), PING_MS);
    this.#set("attached");
    if (!this.kept.length) return;
    if (!this.askToSend && Date.now() - this.#lostAt <= SEND_UNASKED_MS) this.sendKept();
    else {
      this.askToSend = true;
      this.#wire.changed();
    }
  }

  #takeOutput(frame: ArrayBuffer): void {
    const output = readOutput(frame);
    if (!output) return;
    if (output.kind === MODES) return this.#wire.write(output.bytes, true, () => {});
    let bytes = output.bytes;
    if (this.#offset !== null && output.offset < this.#offset) bytes = bytes.subarray(this.#offset - output.offset);
    const end = output.offset + output.bytes.length;
    this.#offset = Math.max(this.#offset ?? 0, end);
    this.#wire.write(bytes, output.kind === REPLAY, () => this.#written(end));
  }

  #written(end: number): void {
    if (end - this.#acked < ACK_BYTES || this.phase !== "attached") return;
    this.#acked = end;
    this.#say({ ack: end });
  }

  #send(bytes: Uint8Array, inReplay: boolean): void {
    for (const frame of writeInput(bytes, inReplay)) this.#socket?.send(frame);
    this.#sent += bytes.length;
    if (this.#pinged < 0) this.#ping();
  }

  #ping(): void {
    if (this.phase !== "attached" || this.#pinged >= 0) return;
    const socket = this.#socket;
    this.#pinged = this.#sent;
    this.#say({ ping: this.#pinged });
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => socket && this.#lost(socket, 1006), PONG_MS);
  }

  #takePong(number: number): void {
    if (number !== this.#pinged) return;
    clearTimeout(this.#deadline);
    this.#confirmed = number;
    this.#pinged = -1;
    if (this.#sent > this.#confirmed) this.#ping();
  }

  #lost(socket: WebSocket | null, code: number): void {
    if (this.#socket !== socket) return;
    this.#lostAt = this.phase === "attached" ? Date.now() : this.#lostAt || Date.now();
    if (this.phase === "ended" || code === 4410) return this.#stop("ended");
    if (this.phase === "attached" && this.#sent > this.#confirmed) this.#wire.maybeLost(this.#sent - this.#confirmed);
    if (code === 4401) this.#wire.loggedOut();
    if (code === 4401 || code === 4404) return this.#stop("stopped");
    this.#drop();
    if (code === REPLACED) this.#forgetTerminal();
    else forgetToken();
    this.#retry = setTimeout(() => this.#connect(), this.#backoff.next());
    this.#set("waiting");
  }

  /** Its holder was replaced: what is on the screen is not its past, and what was typed may not be meant for it. */
  #forgetTerminal(): void {
    this.#offset = null;
    this.#terminal = null;
    this.askToSend = this.kept.length > 0;
    this.#wire.reset();
  }

  #stop(phase: Phase): void {
    this.#drop();
    this.#set(phase);
  }

  #drop(): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#deadline);
    clearInterval(this.#pinger);
    const socket = this.#socket;
    this.#socket = null;
    this.#attempt += 1;
    socket?.close();
  }

  #say(message: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #set(phase: Phase): void {
    this.phase = phase;
    this.#wire.changed();
  }
}
