/** When to try again: doubling waits with jitter, so that many pages do not return at the same moment. */

const FIRST_MS = 250;
const LONGEST_MS = 8000;

export class Backoff {
  #failures = 0;

  /** How long to wait before the next try. */
  next(random: () => number = Math.random): number {
    const ceiling = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#failures);
    this.#failures += 1;
    return ceiling / 2 + random() * (ceiling / 2);
  }

  /** It worked. */
  reset(): void {
    this.#failures = 0;
  }
}
