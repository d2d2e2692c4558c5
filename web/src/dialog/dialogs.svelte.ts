/** Which dialog is open: one at most. */
import type { Reading } from "../store/reading.ts";
import type { Session, Tab } from "../types.ts";

/** An agent that the person may want to end. */
export interface Ending {
  name: string;
  pid: number;
  session: Session | undefined;
  tab: Tab | undefined;
}

export type OpenDialog =
  { kind: "new-tab" } | { kind: "keys" } | { kind: "evidence"; ref: string } | { kind: "end"; ending: Ending };

class Dialogs {
  open = $state.raw<OpenDialog | null>(null);

  newTab(): void {
    this.open = { kind: "new-tab" };
  }

  keys(): void {
    this.open = { kind: "keys" };
  }

  /** How corral knows what it says of a session. */
  evidence(ref: string): void {
    this.open = { kind: "evidence", ref };
  }

  /** Asks whether an agent is to be ended. */
  end(ending: Ending): void {
    this.open = { kind: "end", ending };
  }

  /** Only that kind: a browser tells of a closed dialog a moment later, when another may be open. */
  close(kind: OpenDialog["kind"]): void {
    if (this.open?.kind === kind) this.open = null;
  }
}

export const dialogs: Reading<Dialogs> = new Dialogs();
