/** Why something was not done, as every part of the page shows it: the server's refusal, or one of the page's own. */
import type { RefusalReason, RefusalReport } from "../types.ts";

/** The page could not ask, or got no answer that it understands. */
type OwnReason = "failed" | "no_answer" | "not_let_in" | "page_failed" | "unreachable";

export interface Refusal extends Omit<RefusalReport, "reason"> {
  reason: RefusalReason | OwnReason;
}
