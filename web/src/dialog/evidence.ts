/** The evidence of a session as plain text, for a bug report. Pure. */
import type { Session } from "../types.ts";

export function evidenceText(session: Session): string {
  const { restore } = session;
  // The state as in JSON and `corral explain`: this is read beside them.
  const lines = [
    `${session.provider} ${session.session_id}`,
    `home ${session.home}${session.scope ? `, scope ${session.scope}` : ""}`,
    `${session.state}${session.activity ? ` (${session.activity})` : ""}: ${session.reason}`,
  ];
  if (session.conflict) lines.push(`conflict: ${session.conflict}`);
  for (const claim of session.evidence) {
    lines.push(`- ${claim.kind} ${claim.path}`);
    lines.push(`  pid ${claim.pid ?? "-"}, ${claim.verdict}, rule ${claim.rule}: ${claim.reason}`);
  }
  if (!session.evidence.length) lines.push("- no process claims it");
  lines.push(
    `how to get back in: ${restore.kind}${restore.reason ? ` ${restore.reason}: ${restore.message ?? ""}` : ""}`,
  );
  for (const note of [...session.warnings, ...session.notes]) lines.push(`note: ${note}`);
  return lines.join("\n");
}
