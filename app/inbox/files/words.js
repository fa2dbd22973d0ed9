// What the page says in words about a pause, its decision, and what became of its run.

import { Problem, Unreachable } from "./api.js";

const KINDS = {
  approval: "Approval",
  interactive: "Question",
  input: "Input",
  external_result: "Work to do",
  confirmation: "Confirmation",
  route: "Route",
  review: "Review",
  error: "Error",
  unknown_outcome: "Call in doubt",
};

/** All kinds, as `[kind, name]`. */
export const ALL_KINDS = Object.entries(KINDS);

/** The kind of a pause. */
export function kindOf(pause) {
  return KINDS[pause.kind] ?? pause.kind;
}

const ACTIONS = {
  retry: "Retry",
  skip: "Skip the step",
  fail: "Fail the run",
  run_again: "Run it again",
  use_value: "Use this outcome",
};

/** An action, as the button that takes it says it. */
export function actionIn(name) {
  return ACTIONS[name] ?? name;
}

/** What the decision of a pause was. */
export function verdictOf({ allowed, decision }) {
  if (decision.action) return actionIn(decision.action);
  if (decision.approved === false) return "Rejected";
  if (allowed.includes("value")) return "Answered";
  const isChanged = decision.override_arguments || "override_output" in decision;
  return isChanged ? "Approved with changes" : "Approved";
}

/** The address of a run within the page. */
export function runAddress(threadId, runId) {
  return `#run/${encodeURIComponent(threadId)}/${encodeURIComponent(runId)}`;
}

const STATUSES = {
  open: "Waits for a decision",
  decided: "Decided",
  expired: "Expired",
  superseded: "Superseded by a newer run",
  queued: "Queued",
  running: "Running",
  paused: "Waits for a person",
  completed: "Completed",
  failed: "Failed",
  cancelled: "Cancelled",
  skipped: "Skipped",
};

/** The status of a pause, a run or a step. */
export function statusOf(status) {
  return STATUSES[status] ?? status;
}

const CLOSED = {
  decided: "This pause is decided.",
  expired: "The deadline of this pause has passed.",
  cancelled: "The run of this pause has ended; it needs no decision any more.",
  superseded: "A newer run of the thread has taken its place; it needs no decision any more.",
};

/** How a pause was closed. */
export function closedAs(status) {
  return CLOSED[status] ?? `This pause is ${status}.`;
}

const CLOSED_MEANWHILE = {
  pause_decided: "Somebody else was faster: this pause was decided meanwhile.",
  pause_expired: "The deadline passed before your decision came.",
  pause_cancelled: "The run ended meanwhile, and needs no decision any more.",
  pause_superseded: "A newer run of the thread took the place of this one meanwhile.",
};

/** Why a decision came too late; undefined if that is not what was wrong. */
export function tooLate(error) {
  const reason = CLOSED_MEANWHILE[error.code];
  return reason && `${reason} Your decision was not taken.`;
}

export const GONE = "This pause is not there any more, or never was.";

const REFUSED = {
  digest_mismatch:
    "What this pause asks about is not what you saw. Look at it again; nothing was decided.",
  not_found: `${GONE} Nothing was decided.`,
  already_voted: "You have voted on this pause already; it waits for others.",
  not_an_approver: "You are not among those who may decide this. Nothing was decided.",
  requester_may_not_approve:
    "You have asked for this run, so somebody else has to approve it. You may reject it.",
  workflow_incompatible:
    "Nobody serves this version of the workflow at the moment. The pause stays open: try later.",
};

const UNREACHABLE =
  "The service cannot be reached, so it is not known whether your decision was taken. " +
  "Send it again: it counts once.";

/** Why a decision was not taken, where the pause is open yet. */
export function refused(error) {
  if (error instanceof Unreachable) return UNREACHABLE;
  if (error instanceof Problem) return REFUSED[error.code] ?? error.message;
  throw error;
}

/** What became of a run after a decision. */
export function runNow(run) {
  switch (run.status) {
    case "completed":
      return "The run is completed.";
    case "failed":
      return `The run failed: ${run.error?.message ?? "it does not say why"}`;
    case "cancelled":
      return "The run is cancelled.";
    case "paused":
      return "The run waits for another decision.";
    default:
      return "The run goes on.";
  }
}
