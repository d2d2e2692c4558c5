/** Requests to the server: each has an end, and each failure has words. */
import type { Opened, Provider, Refusal, Session, Survey, Tab, UsageReport } from "./types.ts";

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

let whenLoggedOut: () => void = () => {};

/** Called whenever the server says that this browser is not logged in. */
export function onLoggedOut(call: () => void): void {
  whenLoggedOut = call;
}

async function request<T>(method: string, path: string, body?: unknown, patience = PATIENCE_MS): Promise<T> {
  const init: RequestInit = { method, signal: AbortSignal.timeout(patience), credentials: "same-origin" };
  if (method !== "GET") {
    init.headers = { "Content-Type": "application/json", "X-Corral": "1" };
    init.body = JSON.stringify(body ?? {});
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
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
  if (response.status === 401) whenLoggedOut();
  throw new RequestError(response.status, readRefusal(answer, response.status));
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

export interface OpenChoices {
  anyway?: boolean;
  trust?: boolean;
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
  login: (code: string) => request<void>("POST", "/api/login", { code }),
  sessions: () => request<Survey>("GET", "/api/sessions"),
  session: (ref: string) => request<{ session: Session }>("GET", `/api/sessions/${enc(ref)}`),
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
