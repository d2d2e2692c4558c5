/**
 * How this page gets in, without a cookie. Login and key live in IndexedDB, which is this origin's alone; the key can
 * be used and not be read. At each connect the server proves itself first; then the page does and gets a token, which
 * is kept in memory. src/corral/server/proofs.py says the same words.
 */
import { decode, tryDecode } from "./foreign.ts";

const STORE = "door";
const RENEW_BEFORE_MS = 60_000;
const PATIENCE_MS = 15_000;

/** Why one can't get in; `locked` when only a new link helps. */
export class DoorError extends Error {
  readonly locked: boolean;

  constructor(message: string, locked: boolean) {
    super(message);
    this.locked = locked;
  }
}

interface Kept {
  login: string;
  key: CryptoKey;
}

interface Token {
  token: string;
  until: number;
}

let kept: Kept | null = null;
let token: Token | null = null;
let proving: Promise<Token> | null = null;

/** Why no browser can log in from this address, or null. Without a secure context there are no keys. */
export function whyNotHere(): string | null {
  if (window.isSecureContext && globalThis.crypto?.subtle !== undefined && globalThis.indexedDB !== undefined)
    return null;
  return "Browsers keep no keys for a page over plain HTTP from another machine, so nobody can log in here. Use a tunnel: ssh -L, as docs/server.md says.";
}

/** Exchange the one-time code of a link for a login of this browser. Throws DoorError. */
export async function enter(code: string): Promise<void> {
  refuseInsecure();
  const secret = await importKey(new TextEncoder().encode(code));
  const name = (await sign(secret, "corral code name")).slice(0, 32);
  const key = await importKey(bytesOf(await sign(secret, "corral code key")));
  const given = await prove({ login: name, key }, "This link was used already, or is too old.");
  if (!given.login || !given.salt) throw new DoorError("The server did not create a login.", true);
  const loginKey = await importKey(bytesOf(await sign(key, `corral login key\n${given.salt}`)));
  kept = { login: given.login, key: loginKey };
  token = asToken(given);
  await keep(kept).catch(() => {}); // a browser that keeps nothing is logged in as long as the page is open
}

/** What the next request shows. Proves itself where there is no token, or an old one. Throws DoorError. */
export async function currentToken(): Promise<string> {
  if (token !== null && Date.now() < token.until) return token.token;
  proving ??= renew().finally(() => (proving = null));
  return (await proving).token;
}

/** The server may be another one by now: it has to prove itself before anything else is said to it. */
export function forgetToken(): void {
  token = null;
}

/** The subprotocols that open one WebSocket, once. Throws DoorError. */
export async function socketProtocols(): Promise<string[]> {
  const nonce = newNonce();
  const shown = await currentToken();
  const answer = await post("/api/tickets", { nonce }, shown);
  if (answer.status === 401) forgetToken();
  const given = await readAnswer<{ ticket: string; proof: string }>(answer);
  const { login, key } = await whoAmI();
  const words = `corral ticket\n${location.origin}\n${login}\n${nonce}\n${given.ticket}`;
  if (!(await isSigned(key, given.proof, words))) throw notTheServer();
  return ["corral", `ticket.${given.ticket}`];
}

async function renew(): Promise<Token> {
  refuseInsecure();
  const own = await whoAmI();
  token = asToken(await prove(own, "This browser is no longer logged in."));
  return token;
}

interface Given {
  token: string;
  seconds: number;
  login: string | null;
  salt: string | null;
}

async function prove(who: Kept, whenUnknown: string): Promise<Given> {
  const nonce = newNonce();
  const greeted = await post("/api/hello", { login: who.login, nonce });
  if (greeted.status === 401) throw new DoorError(whenUnknown, true);
  const said = await readAnswer<{ nonce: string; proof: string }>(greeted);
  const words = `${location.origin}\n${who.login}\n${nonce}\n${said.nonce}`;
  if (!(await isSigned(who.key, said.proof, `corral server\n${words}`))) throw notTheServer();
  const proof = await sign(who.key, `corral page\n${words}`);
  const answer = await post("/api/prove", { nonce: said.nonce, proof, label: label() });
  if (answer.status === 401) throw new DoorError("The server refused this browser's proof.", false);
  return readAnswer<Given>(answer);
}

function asToken(given: Given): Token {
  return { token: given.token, until: Date.now() + Math.max(0, given.seconds * 1000 - RENEW_BEFORE_MS) };
}

async function post(path: string, body: object, shown?: string): Promise<Response> {
  try {
    return await fetch(path, {
      method: "POST",
      credentials: "omit",
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE_MS),
      headers: {
        "Content-Type": "application/json",
        "X-Corral": "1",
        ...(shown === undefined ? {} : { Authorization: `Corral ${shown}` }),
      },
      body: JSON.stringify(body),
    });
  } catch {
    forgetToken();
    throw new DoorError("The server can't be reached. The page keeps trying.", false);
  }
}

async function readAnswer<T>(answer: Response): Promise<T> {
  const text = await answer.text();
  if (answer.ok) return decode<T>(text);
  // 421: the server is there under another name. What was logged in under this one is void.
  if (answer.status === 421)
    throw new DoorError("corral has another address by now: this page's login has ended.", true);
  const said = tryDecode<{ error?: { message?: string } }>(text);
  throw new DoorError(said?.error?.message ?? `The server answered ${answer.status}.`, false);
}

function refuseInsecure(): void {
  const why = whyNotHere();
  if (why !== null) throw new DoorError(why, true);
}

function notTheServer(): DoorError {
  return new DoorError(
    "Another program answers at this address: it is not the corral that this browser logged in to. The page told it nothing.",
    true,
  );
}

/** How this login is called in the list: the browser and the system, in words. */
function label(): string {
  const agent = navigator.userAgent;
  const browser = /(Firefox|Edg|OPR|Chrome|Safari)\/(\d+)/.exec(agent.replace(/Chrome(?=.*(Edg|OPR)\/)/, ""));
  const system = /(Android|iPhone|iPad|Windows|Mac OS X|Linux)/.exec(agent)?.[1] ?? "";
  const name = browser ? `${{ Edg: "Edge", OPR: "Opera" }[browser[1] ?? ""] ?? browser[1]} ${browser[2]}` : "a browser";
  return system ? `${name} on ${system}` : name;
}

// --- keys

function newNonce(): string {
  return hexOf(crypto.getRandomValues(new Uint8Array(16)));
}

function importKey(bytes: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}

async function sign(key: CryptoKey, words: string): Promise<string> {
  return hexOf(new Uint8Array(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(words))));
}

function isSigned(key: CryptoKey, proof: string, words: string): Promise<boolean> {
  return crypto.subtle.verify("HMAC", key, bytesOf(proof), new TextEncoder().encode(words));
}

function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function bytesOf(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

// --- what this browser keeps

async function whoAmI(): Promise<Kept> {
  kept ??= await readKept().catch(() => null);
  if (kept === null) throw new DoorError("This browser is not logged in.", true);
  return kept;
}

async function readKept(): Promise<Kept | null> {
  return (await ask<Kept | undefined>("readonly", (store) => store.get("login"))) ?? null;
}

async function keep(login: Kept): Promise<void> {
  await ask("readwrite", (store) => store.put(login, "login"));
}

async function ask<T>(mode: IDBTransactionMode, what: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const opening = indexedDB.open("corral", 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
  const database = await finished(opening);
  try {
    return await finished(what(database.transaction(STORE, mode).objectStore(STORE)));
  } finally {
    database.close();
  }
}

function finished<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB failed"));
  });
}
