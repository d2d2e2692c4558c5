/** What xterm.js (6.0.0) leaves undone, done before it and after it. Pure, so that tests can use it with the engine alone. */

/** What its reset leaves as it is: the cursor, its blinking, new lines at line feeds, the colours that a program set. */
export const FIRST_STATE = "\x1b[?25h\x1b[?12l\x1b[20l\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07";

/**
 * Bytes in pieces that end with whole characters.
 *
 * The engine itself joins what is cut, but loses characters whose second byte is 0x80 and that are cut after it: dashes,
 * quotes and dots (U+2000 to U+203F), and any other that is encoded so.
 */
export class WholeCharacters {
  #rest = new Uint8Array();

  /** What can be written now. The beginning of a character waits for its end. */
  take(bytes: Uint8Array): Uint8Array {
    if (this.#rest.length) {
      const joined = new Uint8Array(this.#rest.length + bytes.length);
      joined.set(this.#rest);
      joined.set(bytes, this.#rest.length);
      bytes = joined;
    }
    const end = bytes.length - unfinishedBytes(bytes);
    this.#rest = bytes.slice(end);
    return bytes.subarray(0, end);
  }

  /** What follows does not continue what came before. */
  forget(): void {
    this.#rest = new Uint8Array();
  }
}

/** How many bytes at the end are the beginning of a character. */
function unfinishedBytes(bytes: Uint8Array): number {
  for (let count = 1; count <= Math.min(3, bytes.length); count++) {
    const byte = bytes[bytes.length - count]!;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return count < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? count : 0;
  }
  return 0;
}
