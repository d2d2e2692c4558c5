/** How long the server has been silent. It is fed by "a message came", and knows how often one is due. */

/** So many beats may be late at once: a busy machine is no dead one. */
const LATE_BEATS = 2;
const GRACE_S = 1;

export class Watchdog {
  #clock: () => number;
  #heardAt: number;
  /** Null: the server did not say how often it speaks. */
  #beatS: number | null = null;

  /** `clock` gives milliseconds and never goes back. */
  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
    this.#heardAt = clock();
  }

  /** The server says something at least this often, in seconds. */
  expect(beatS: number | null): void {
    this.#beatS = beatS;
  }

  /** A message came, whatever it says. */
  heard(): void {
    this.#heardAt = this.#clock();
  }

  /** Whole seconds since the last message. */
  get age(): number {
    return Math.floor((this.#clock() - this.#heardAt) / 1000);
  }

  /** Whether a message is overdue. */
  get isOverdue(): boolean {
    return this.#beatS !== null && this.age >= LATE_BEATS * this.#beatS + GRACE_S;
  }
}
