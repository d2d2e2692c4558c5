/** A terminal as the page shows it: a screen and its connection, with what the person should know about both. */
import { store } from "../store/store.svelte.ts";
import { Connection, type Phase } from "./connection.ts";
import { FIRST_STATE, WholeCharacters } from "./engine.ts";
import { isAnswer, isPointer } from "./protocol.ts";
import { makeScreen, readTheme, type Screen } from "./screen.ts";

const KEEP_VIEWS = 8;
const encoder = new TextEncoder();

export class TerminalView {
  readonly tab: string;
  /** The process that it showed first; another one is another terminal. */
  readonly pid: number | null;
  readonly host: HTMLElement;
  phase = $state<Phase>("connecting");
  /** Bytes that were typed and wait for the connection. */
  kept = $state(0);
  askToSend = $state(false);
  maybeLost = $state(0);
  failure = $state<string | null>(null);
  link = $state<string | null>(null);
  /** Text that a program wants on the clipboard, until the person has decided. */
  copyWish = $state<string | null>(null);
  /** The key row's Ctrl: the next letter is sent as a control character. */
  ctrl = $state(false);
  exited = $state(false);
  /** Whether it was ever attached: else nothing of the program was seen. */
  shown = $state(false);
  /** Whether the person lets this tab's programs write to the clipboard. */
  copyAllowed = false;

  screen: Screen;
  #connection: Connection;
  #characters = new WholeCharacters();
  #replaying = 0;

  /** `kept` was typed for the terminal that this tab had before: the person decides what becomes of it. */
  constructor(tab: string, pid: number | null, kept: Uint8Array = new Uint8Array()) {
    this.tab = tab;
    this.pid = pid;
    this.host = document.createElement("div");
    this.host.className = "terminal-host";
    this.screen = makeScreen(this.host, {
      data: (data) => this.#takeData(data),
      pointer: (bytes) => this.#takePointer(bytes),
      copy: (text) => this.#wishToCopy(text),
      link: (address) => (this.link = address),
    });
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const address = `${scheme}//${location.host}/api/tabs/${encodeURIComponent(tab)}/terminal`;
    const wire = {
      write: (bytes: Uint8Array, replay: boolean, done: () => void) => this.#write(bytes, replay, done),
      reset: () => this.#reset(),
      size: (columns: number, rows: number) => this.#takeSize(columns, rows),
      wanted: () => this.wanted(),
      changed: () => this.#takeStatus(),
      maybeLost: (bytes: number) => (this.maybeLost = bytes),
      exit: () => (this.exited = true),
      failed: (message: string) => (this.failure = message),
      loggedOut: () => void store.begin(),
    };
    this.#connection = new Connection(address, wire, kept);
    this.#takeStatus();
  }

  /** Type as if at the keyboard. */
  type(text: string): void {
    this.maybeLost = 0;
    this.claimSize();
    if (!this.#connection.type(encoder.encode(text), this.#replaying > 0)) {
      store.notify(
        "problem",
        "That was not sent: the program has ended, or more was typed than can be kept without a connection.",
      );
    }
  }

  /** What was typed and not sent; it is not kept here any more. */
  takeKept(): Uint8Array {
    const kept = this.#connection.kept;
    this.#connection.dropKept();
    return kept;
  }

  sendKept(): void {
    this.#connection.sendKept();
  }

  dropKept(): void {
    this.#connection.dropKept();
  }

  retryNow(): void {
    this.#connection.retryNow();
  }

  setVisible(visible: boolean): void {
    this.#connection.setVisible(visible);
  }

  /** The size that fits where the terminal is shown. */
  wanted(): { columns: number; rows: number } {
    const fitting = this.host.isConnected ? this.screen.fit.proposeDimensions() : undefined;
    if (!fitting || !Number.isFinite(fitting.cols))
      return { columns: this.screen.terminal.cols, rows: this.screen.terminal.rows };
    return { columns: Math.max(20, fitting.cols), rows: Math.max(4, fitting.rows) };
  }

  /** This viewer is the one in use: the terminal takes its size. */
  claimSize(): void {
    if (this.phase !== "attached") return;
    const { columns, rows } = this.wanted();
    const { terminal } = this.screen;
    // The screen takes it on when the terminal says so: between the bytes that were written for either size.
    if (columns !== terminal.cols || rows !== terminal.rows) this.#connection.resize(columns, rows);
  }

  allowCopy(always: boolean): void {
    const text = this.copyWish;
    this.copyWish = null;
    this.copyAllowed ||= always;
    if (text !== null)
      navigator.clipboard.writeText(text).catch(() => store.notify("problem", "The browser did not allow it."));
  }

  dispose(): void {
    this.#connection.close();
    this.screen.terminal.dispose();
    this.host.remove();
  }

  #takeData(data: string): void {
    if (isAnswer(data)) {
      this.#connection.answer(encoder.encode(data), this.#replaying > 0);
      return;
    }
    if (isPointer(data)) return this.#takePointer(encoder.encode(data));
    if (this.ctrl && /^[a-z@[\\\]^_]$/i.test(data)) {
      this.ctrl = false;
      data = String.fromCharCode(data.toUpperCase().charCodeAt(0) & 31);
    }
    this.type(data);
  }

  #takePointer(bytes: Uint8Array): void {
    this.claimSize();
    this.#connection.answer(bytes, this.#replaying > 0);
  }

  #write(bytes: Uint8Array, replay: boolean, done: () => void): void {
    if (replay) this.#replaying += 1;
    this.screen.terminal.write(this.#characters.take(bytes), () => {
      if (replay) this.#replaying -= 1;
      done();
    });
  }

  #reset(): void {
    this.#characters.forget();
    this.#afterWritten(() => this.screen.terminal.reset());
    this.screen.terminal.write(FIRST_STATE);
  }

  #takeSize(columns: number, rows: number): void {
    if (columns <= 0 || rows <= 0) return;
    const { terminal } = this.screen;
    this.#afterWritten(() => {
      if (columns !== terminal.cols || rows !== terminal.rows) terminal.resize(columns, rows);
    });
  }

  /** What was received before is on the screen then, and nothing that is received later. */
  #afterWritten(act: () => void): void {
    this.screen.terminal.write("", act);
  }

  #wishToCopy(text: string): void {
    if (this.#replaying) return;
    if (!this.copyAllowed) {
      this.copyWish = text;
      return;
    }
    this.copyWish = text;
    this.allowCopy(true);
  }

  #takeStatus(): void {
    if (!this.#connection) return; // said from within its constructor
    const before = this.phase;
    this.phase = this.#connection.phase;
    this.kept = this.#connection.kept.length;
    this.askToSend = this.#connection.askToSend;
    if (this.phase === "attached" && before !== "attached") {
      this.failure = null;
      this.shown = true;
      if (this.host.isConnected && document.hasFocus()) this.claimSize();
    }
  }
}

/** The terminals that are kept ready; the one not shown for longest gives way, and is attached again when shown. */
class Views {
  #views = new Map<string, TerminalView>();

  /** `pid` is that of the running program, null when it has ended. */
  show(tab: string, pid: number | null): TerminalView {
    const old = this.#views.get(tab);
    const replaced = pid !== null && old?.pid !== pid;
    const kept = replaced ? old?.takeKept() : undefined;
    if (replaced) this.drop(tab);
    const view = this.#views.get(tab) ?? new TerminalView(tab, pid, kept);
    this.#views.delete(tab);
    this.#views.set(tab, view);
    for (const [name, old] of this.#views) {
      if (this.#views.size <= KEEP_VIEWS) break;
      if (old.kept) continue; // what was typed there is not sent yet
      old.dispose();
      this.#views.delete(name);
    }
    return view;
  }

  drop(tab: string): void {
    this.#views.get(tab)?.dispose();
    this.#views.delete(tab);
  }

  retryNow(): void {
    for (const view of this.#views.values()) view.retryNow();
  }

  applyTheme(): void {
    for (const view of this.#views.values()) view.screen.terminal.options.theme = readTheme();
  }
}

export const views = new Views();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => views.applyTheme());
window.addEventListener("online", () => views.retryNow());
