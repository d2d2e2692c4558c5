/** The event stream: resumes where it was after any break, with jittered waits; says whether it is connected. */
import { Backoff } from "./backoff.ts";

const NAMES = ["hello", "session", "switched", "tab", "restore", "usage", "survey", "degraded", "resync"] as const;
export type EventName = (typeof NAMES)[number];

/** The server sends a comment every 15 s, but a browser does not show comments: this long without an opened stream is a failure. */
const OPEN_MS = 10_000;

export interface EventHandlers {
  event(name: EventName, data: unknown): void;
  /** `false` as soon as the stream is lost, `true` when it is back. */
  connected(yes: boolean): void;
  /** Asked before each new try: false stops trying (not logged in). */
  mayTry(): Promise<boolean>;
}

export class EventStream {
  #handlers: EventHandlers;
  #source: EventSource | null = null;
  #after: string;
  #backoff = new Backoff();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(after: string, handlers: EventHandlers) {
    this.#after = after;
    this.#handlers = handlers;
    this.#open();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#source?.close();
  }

  /** Something suggests that the network is back: do not wait out the pause. */
  retryNow(): void {
    if (this.#closed || this.#source) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  #open(): void {
    const source = new EventSource(
      this.#after ? `/api/events?after=${encodeURIComponent(this.#after)}` : "/api/events",
    );
    this.#source = source;
    this.#timer = setTimeout(() => this.#lost(source), OPEN_MS);
    source.onopen = () => {
      clearTimeout(this.#timer);
      this.#backoff.reset();
      this.#handlers.connected(true);
    };
    source.onerror = () => this.#lost(source);
    for (const name of NAMES) {
      source.addEventListener(name, (event: MessageEvent<string>) => {
        if (event.lastEventId) this.#after = event.lastEventId;
        this.#handlers.event(name, JSON.parse(event.data));
      });
    }
  }

  /** The browser's own retry has no jitter and gives up on any status but 200: we close and try again ourselves. */
  #lost(source: EventSource): void {
    if (this.#closed || this.#source !== source) return;
    source.close();
    this.#source = null;
    clearTimeout(this.#timer);
    this.#handlers.connected(false);
    this.#timer = setTimeout(() => void this.#tryAgain(), this.#backoff.next());
  }

  async #tryAgain(): Promise<void> {
    if (!(await this.#handlers.mayTry()) || this.#closed || this.#source) return;
    this.#open();
  }
}
