/** The event stream: resumes where it was after any break, with jittered waits; says whether it is connected. */
import { fetchProven } from "./api.ts";
import { Backoff } from "./backoff.ts";
import { forgetToken } from "./door.ts";
import { decode } from "./foreign.ts";
import type { ServerEvent } from "../types.ts";

/** This long without an opened stream is a failure; what comes after is for the watchdog. */
const OPEN_MS = 10_000;

export interface EventHandlers {
  event(event: ServerEvent): void;
  /** `false` as soon as the stream is lost, `true` when it is back. */
  connected(yes: boolean): void;
  /** Asked before each new try: false stops trying (not logged in). */
  mayTry(): Promise<boolean>;
}

export class EventStream {
  #handlers: EventHandlers;
  #request: AbortController | null = null;
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
    this.#request?.abort();
  }

  /** Something suggests that the network is back: do not wait out the pause. */
  retryNow(): void {
    if (this.#closed || this.#request) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  #open(): void {
    const request = new AbortController();
    this.#request = request;
    this.#timer = setTimeout(() => this.#lost(request), OPEN_MS);
    this.#follow(request).then(
      () => this.#lost(request),
      () => this.#lost(request),
    );
  }

  /** Until the stream ends, however it does. An EventSource could not show who we are. */
  async #follow(request: AbortController): Promise<void> {
    const path = this.#after ? `/api/events?after=${encodeURIComponent(this.#after)}` : "/api/events";
    const init = { headers: { Accept: "text/event-stream" }, cache: "no-store", signal: request.signal } as const;
    const response = await fetchProven(path, init);
    if (!response.ok || response.body === null || this.#request !== request) return;
    clearTimeout(this.#timer);
    this.#backoff.reset();
    this.#handlers.connected(true);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.#request !== request) return;
      const parts = (text + value).split("\n\n");
      text = parts.pop() ?? "";
      for (const part of parts) this.#take(part);
    }
  }

  /** One event: its lines are `id: …`, `event: …`, `data: …`, as the server writes them; a comment has none of these. */
  #take(part: string): void {
    const field = (name: string): string | undefined =>
      part
        .split("\n")
        .find((line) => line.startsWith(`${name}: `))
        ?.slice(name.length + 2);
    const name = field("event");
    const data = field("data");
    this.#after = field("id") ?? this.#after;
    if (name === undefined || data === undefined) return;
    try {
      this.#handlers.event({ event: name, data: decode(data) } as ServerEvent);
    } catch (error) {
      reportError(error); // a fault of the page is no fault of the stream
    }
  }

  /** Whoever answers the next time proves itself first. */
  #lost(request: AbortController): void {
    if (this.#closed || this.#request !== request) return;
    this.#request = null;
    request.abort();
    forgetToken();
    clearTimeout(this.#timer);
    this.#handlers.connected(false);
    this.#timer = setTimeout(() => void this.#tryAgain(), this.#backoff.next());
  }

  async #tryAgain(): Promise<void> {
    if (!(await this.#handlers.mayTry()) || this.#closed || this.#request) return;
    this.#open();
  }
}
