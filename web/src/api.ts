/** Requests to the server: each has an end, and each failure has words. */
import { currentToken, DoorError, forgetToken } from "./door.ts";
import type { Agreed, LookedAt, Opened, Provider, Refusal, Session, Survey, Tab, UsageReport } from "./types.ts";

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
  return { reason: "page_failed", message: `The page failed: ${String(error)}`, remedy: ["Reload the page."] };
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
    throw new RequestError(error.locked ? 401 : 0, { reason: "not_let_in", message: error.message, remedy: [] });
  }
}

async function request<T>(method: string, path: string, body?: unknown, patience = PATIENCE_MS): Promise<T> {
  const init: RequestInit = { method, signal: AbortSignal.timeout(patience) };
  if (method !== "GET") {
    init.headers = { "Content-Type": "application/json", "X-Corral": "1" };
    init.body = JSON.stringify(body ?? {});
  }
  let response: Response;
  try {
    response = await fetchProven(path, init);
  } catch (error) {
    if (error instanceof RequestError) throw error;
    const late = error instanceof DOMException && error.name === "TimeoutError";
    const message = late
      ? `The server did not answer within ${patience / 1000} s.`
      : "The server can't be reached. The page keeps trying.";
    throw new RequestError(0, { reason: late ? "no_answer" : "unreachable", message, remedy: [] });
  }
  if (response.status === 204 || response.status === 202) {
    const text = await response.text();
    return (text ? JSON.parse(text) : undefined) as T;
  }
  const answer: unknown = await response.json().catch(() => null);
  if (response.ok) return answer as T;
  const refusal = readRefusal(answer, response.status);
  if (response.status === 401 || response.status === 421) whenLoggedOut(refusal.message);
  throw new RequestError(response.status === 421 ? 401 : response.status, refusal);
}

function readRefusal(answer: unknown, status: number): Refusal {
  const error = (answer as { error?: Partial<Refusal> } | null)?.error;
  return {
    ...error,
    reason: error?.reason ?? "failed",
    message: error?.message ?? `The server answered ${status}.`,
    remedy: error?.remedy ?? [],
  };
}

export interface OpenChoices extends Agreed {
  attach_only?: boolean;
  columns: number;
  rows: number;
}

export interface StartChoices extends OpenChoices {
  provider: string;
  work_dir: string;
  live_only?: boolean;
}

const enc = encodeURIComponent;

export const api = {
  sessions: () => request<Survey>("GET", "/api/sessions"),
  session: (ref: string) => request<{ session: Session }>("GET", `/api/sessions/${enc(ref)}`),
  look: (ref: string) => request<LookedAt>("GET", `/api/sessions/${enc(ref)}/look`),
  dismiss: (ref: string, dismissed: boolean) =>
    request<void>("POST", `/api/sessions/${enc(ref)}/dismiss`, { dismissed }),
  open: (ref: string, choices: OpenChoices) =>
    request<Opened>(
      "POST",
      `/api/sessions/${enc(ref)}/open`,
      { anyway: false, trust: false, ...choices },
      OPEN_PATIENCE_MS,
    ),
  end: (ref: string) => request<void>("POST", `/api/sessions/${enc(ref)}/end`),
  tabs: () => request<{ tabs: Tab[] }>("GET", "/api/tabs"),
  start: (choices: StartChoices) =>
    request<Opened>("POST", "/api/tabs", { args: [], trust: false, ...choices }, OPEN_PATIENCE_MS),
  openTab: (tab: string, choices: Partial<OpenChoices>) =>
    request<Opened>("POST", `/api/tabs/${enc(tab)}/open`, choices, OPEN_PATIENCE_MS),
  restoreAll: () => request<{ queued: number }>("POST", "/api/tabs/restore"),
  moveTab: (tab: string, order: number) => request<void>("POST", `/api/tabs/${enc(tab)}/move`, { order }),
  closeTab: (tab: string) => request<void>("DELETE", `/api/tabs/${enc(tab)}`),
  endTab: (tab: string, ref: string | null) => request<void>("POST", `/api/tabs/${enc(tab)}/end`, { ref }),
  providers: () => request<Provider[]>("GET", "/api/providers"),
  installHooks: (provider: string) => request<unknown>("POST", `/api/hooks/${enc(provider)}`),
  directories: (prefix: string) =>
    request<{ directories: string[]; recent: string[] }>("GET", `/api/directories?prefix=${enc(prefix)}`),
  usage: (by: string, since: string | null) =>
    request<UsageReport>("GET", `/api/usage?${new URLSearchParams({ by, tz: zone(), ...(since ? { since } : {}) })}`),
};

function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}
