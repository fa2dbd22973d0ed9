// The run of a pause so far: what was asked before and beside it, and what was decided.

import { element } from "./element.js";
import { past } from "./moments.js";
import { visible } from "./values.js";
import { kindOf, runAddress, statusOf, verdictOf } from "./words.js";

/** The pauses of a run as a list; the one that is looked at is marked. */
export function historyElement(run, pauseId) {
  return element("ol", { class: "history" }, run.pauses.map((each) => entry(each, pauseId)));
}

function entry(pause, pauseId) {
  const isThis = pause.id === pauseId;
  const message = visible(pause.message);
  const name = isThis
    ? element("strong", null, message)
    : element("a", { href: `#${encodeURIComponent(pause.id)}` }, message);
  return element(
    "li",
    { "aria-current": isThis ? "true" : null },
    element("span", { class: "kind", "data-kind": pause.kind }, kindOf(pause)),
    element("span", { dir: "auto" }, name),
    element("span", { class: "when" }, ...outcomeOf(pause)),
  );
}

/** What became of a pause, in a line. */
export function outcomeOf(pause) {
  const { decision } = pause;
  if (!decision) return [statusOf(pause.status)];
  return [`${verdictOf(pause)} by ${visible(decision.by)}, `, past(decision.decided_at)];
}

/** The way to the page of a pause's run. */
export function runLink({ thread_id: thread, run_id: run }, words) {
  return element("a", { href: runAddress(thread, run) }, words);
}
