/** Numbers, times and paths in the few characters that a list has room for. */

/** A span as people say it, as `corral ps` has it: one unit, rounded down. */
export function age(seconds: number): string {
  const steps: [number, number, string][] = [
    [90, 1, "s"],
    [5400, 60, "min"],
    [129_600, 3600, "h"],
  ];
  const span = Math.max(0, seconds);
  for (const [limit, size, unit] of steps) if (span < limit) return `${Math.floor(span / size)} ${unit}`;
  return `${Math.floor(span / 86_400)} d`;
}

/** The time of day; with the date when it was not today. */
export function clock(at: number, now: number, { seconds = false } = {}): string {
  const then = new Date(at * 1000);
  const fields: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hour12: false };
  const time = then.toLocaleTimeString([], seconds ? { ...fields, second: "2-digit" } : fields);
  if (then.toDateString() === new Date(now * 1000).toDateString()) return time;
  return `${then.toLocaleDateString([], { month: "short", day: "numeric" })} ${time}`;
}

export function tokens(count: number): string {
  if (count < 1000) return `${count}`;
  if (count < 999_500) return `${(count / 1000).toFixed(count < 9950 ? 1 : 0)} k`;
  return `${(count / 1_000_000).toFixed(count < 9_950_000 ? 1 : 0)} M`;
}

/** Money as the server said it, to cents; what is below half a cent is not shown as nothing. */
export function money(amount: string | null, currency: string): string {
  if (amount === null) return "unpriced";
  const value = Number(amount);
  const sign = currency === "USD" ? "$" : `${currency} `;
  if (value > 0 && value < 0.005) return `<${sign}0.01`;
  return `${sign}${value.toFixed(2)}`;
}

/** A path with ~ for the person's home. */
export function shortPath(path: string, home: string | undefined): string {
  if (!home || home === "/") return path;
  if (path === home) return "~";
  return path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}

/** Enough of an id to tell it by. */
export function shortId(id: string): string {
  return id.replace(/^session_/, "").slice(0, 8);
}

export function count(number: number, one: string, many: string = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** A message as a sentence: the server's begin in lower case, as on the command line. */
export function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

/** One word of a command as a shell must read it. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
