/** Requests to the server: each has an end, and each failure has words. */
import { currentToken, DoorError, forgetToken } from "./door.ts";
import { decode, tryDecode } from "./foreign.ts";
import type {
  Directories,
  ErrorDocument,
  HooksInstalled,
  LookedAt,
  NewTab,
  OneSession,
  OpenedTab,
  OpenSession,
  OpenTab,
  ProviderReport,
  Queued,
  SessionList,
  StartedTab,
  TabList,
  UsageDocument,
} from "../types.ts";
import type { Refusal } from "../refusal/refusal.ts";

const PATIENCE_MS = 20_000;
/** Opening a session may wait for an agent to start. */
const OPEN_PATIENCE_MS = 60_000;

/** A request that was not done. `status` is 0 when the server could not be reached. */
export class RequestError extends Error {
  readonly status: number;
  readonly refusal: Refusal;

  constructor(status: number, refusal: Refusal) {
    super(refusal.message);
    this.status = status;
    this.refusal = refusal;
  }
}

/** Any failure as something to show. */
export function asRefusal(error: unknown): Refusal {
  if (error instanceof RequestError) return error.refusal;
  return { ...makeRefusal("page_failed", `The page failed: ${String(error)}`), remedy: ["Reload the page."] };
}

/** A refusal of the page's own, in the shape of the server's. */
function makeRefusal(reason: Refusal["reason"], message: string): Refusal {
  return { reason, message, remedy: [], commands: [], go_there: null, loss: null };
}

let whenLoggedOut: (why: string) => void = () => {};

/** Called whenever this browser is not logged in (any more), with why. */
export function onLoggedOut(call: (why: string) => void): void {
  whenLoggedOut = call;
}

/** A fetch that shows this page's token; when the server does not know it any more, both prove themselves again. */
export async function fetchProven(path: string, init: RequestInit): Promise<Response> {
  for (let tries = 1; ; tries += 1) {
    const headers = { ...(init.headers as Record<string, string>), Authorization: `Corral ${await proveFirst()}` };
    const response = await fetch(path, { ...init, headers, credentials: "omit" }).catch((error: unknown) => {
      forgetToken();
      throw error;
    });
    if (response.status === 401) forgetToken();
    if (response.status !== 401 || tries === 2) return response;
  }
}

async function proveFirst(): Promise<string> {
  try {
    return await currentToken();
  } catch (error) {
    if (!(error instanceof DoorError)) throw error;
    if (error.locked) whenLoggedOut(error.message);
    throw new RequestError(error.locked ? 401 : 0, makeRefusal("not_let_in", error.message));
  }
}

async function request<T>(method: string, path: string, body?: unknown, patience = PATIENCE_MS): Promise<T> {
  const init: RequestInit = { method, signal: AbortSignal.timeout(patience) };
  if (method !== "GET") {
    init.headers = { "Content-Type": "application/json", "X-Corral": "1" };
    init.body = JSON.stringify(body ?? {});
  }
  let response: Response;
  let text: string;
  try {
    response = await fetchProven(path, init);
    text = await response.text();
  } catch (error) {
    if (error instanceof RequestError) throw error;
    const late = error instanceof DOMException && error.name === "TimeoutError";
    const message = late
      ? `The server did not answer within ${patience / 1000} s.`
      : "The server can't be reached. The page keeps trying.";
    throw new RequestError(0, makeRefusal(late ? "no_answer" : "unreachable", message));
  }
  if (response.ok) return (text ? decode<T>(text) : undefined) as T;
  const refusal = readRefusal(tryDecode(text), response.status);
  if (response.status === 401 || response.status === 421) whenLoggedOut(refusal.message);
  throw new RequestError(response.status === 421 ? 401 : response.status, refusal);
}

function readRefusal(answer: unknown, status: number): Refusal {
  // What stands between may have answered instead of the server: then nothing of it is promised.
  const error = (answer as Partial<ErrorDocument> | null)?.error;
  return { ...makeRefusal("failed", `The server answered ${status}.`), ...error };
}

const enc = encodeURIComponent;

export const api = {
  sessions: () => request<SessionList>("GET", "/api/sessions"),
  session: (ref: string) => request<OneSession>("GET", `/api/sessions/${enc(ref)}`),
  look: (ref: string) => request<LookedAt>("GET", `/api/sessions/${enc(ref)}/look`),
  dismiss: (ref: string, dismissed: boolean) =>
    request<void>("POST", `/api/sessions/${enc(ref)}/dismiss`, { dismissed }),
  open: (ref: string, choices: OpenSession) =>
    request<OpenedTab>("POST", `/api/sessions/${enc(ref)}/open`, choices, OPEN_PATIENCE_MS),
  end: (ref: string) => request<void>("POST", `/api/sessions/${enc(ref)}/end`),
  tabs: () => request<TabList>("GET", "/api/tabs"),
  start: (choices: NewTab) => request<StartedTab>("POST", "/api/tabs", choices, OPEN_PATIENCE_MS),
  openTab: (tab: string, choices: OpenTab) =>
    request<OpenedTab>("POST", `/api/tabs/${enc(tab)}/open`, choices, OPEN_PATIENCE_MS),
  restoreAll: () => request<Queued>("POST", "/api/tabs/restore"),
  moveTab: (tab: string, order: number) => request<void>("POST", `/api/tabs/${enc(tab)}/move`, { order }),
  closeTab: (tab: string) => request<void>("DELETE", `/api/tabs/${enc(tab)}`),
  endTab: (tab: string, ref: string | null) => request<void>("POST", `/api/tabs/${enc(tab)}/end`, { ref }),
  providers: () => request<ProviderReport[]>("GET", "/api/providers"),
  installHooks: (provider: string) => request<HooksInstalled>("POST", `/api/hooks/${enc(provider)}`),
  directories: (prefix: string) => request<Directories>("GET", `/api/directories?prefix=${enc(prefix)}`),
  usage: (by: string, since: string | null) =>
    request<UsageDocument>("GET", `/api/usage?${new URLSearchParams({ by, tz: zone(), ...(since ? { since } : {}) })}`),
};

function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}
