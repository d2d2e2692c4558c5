/** What comes from elsewhere as JSON: signs that turn text around or can't be seen are shown as their escapes. */

/** As src/corral/machine/text.py has them; new lines and tabs are blanks on a page. */
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu;

/** The one place where the page reads an answer, an event or a terminal's word. Throws as JSON.parse does. */
export function decode<T>(text: string): T {
  // The server writes every such sign as \uXXXX: without one there is nothing to look for.
  if (!text.includes("\\u") && text.search(UNSAFE) < 0) return JSON.parse(text) as T;
  return JSON.parse(text, (_key, value: unknown) => (typeof value === "string" ? printable(value) : value)) as T;
}

/** The same of what may be no JSON at all; null then. */
export function tryDecode<T>(text: string): T | null {
  try {
    return decode<T>(text);
  } catch {
    return null;
  }
}

export function printable(text: string): string {
  return text.replace(UNSAFE, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
