// Shows one run: its steps as a tree, with what was asked and decided at each, what it has spent, how long it waited.

import { element } from "./element.js";
import { outcomeOf } from "./history.js";
import { between, lasting, past } from "./moments.js";
import { outputElement } from "./output-view.js";
import { stepTree } from "./step-tree.js";
import { valueElement, valueTable, visible } from "./values.js";
import { kindOf, statusOf } from "./words.js";

/** A run as an element; `events` are what its stream has told. */
export function runElement(run, events) {
  return element(
    "div",
    { class: "facts" },
    element("span", { class: "kind", "data-status": run.status }, statusOf(run.status)),
    element("h2", { tabindex: "-1" }, `Run of ${visible(run.workflow.name)}`),
    element("dl", { class: "particulars" }, particulars(run).map(particular)),
    ...outcome(run),
    section("Steps", tree(run, events)),
    section("Input", valueElement(run.input)),
    ...(Object.keys(run.metadata).length ? [section("Metadata", valueTable(run.metadata))] : []),
  );
}

function particulars(run) {
  const { usage } = run;
  return [
    ["Asked by", run.requested_by],
    ["Version", run.workflow.version],
    ["Began", past(run.created_at)],
    ["Took", lasting(between(run.created_at, run.finished_at))],
    ["Waited for people", run.pauses.length > 0 && lasting(waitedFor(run.pauses))],
    ["Model calls", String(usage.model_calls)],
    ["Tool calls", String(usage.tool_calls)],
    ["Tokens", `${usage.input_tokens} in, ${usage.output_tokens} out`],
    ["Spent", `$${usage.cost}`],
    ["Thread", element("code", null, run.thread_id)],
    ["Run", element("code", null, run.id)],
  ];
}

function particular([name, value]) {
  if (!value) return [];
  const said = typeof value === "string" ? visible(value) : value;
  return element("div", null, element("dt", null, name), element("dd", null, said));
}

/** How long at least one question was open; what was open at the same time counts once. */
function waitedFor(pauses) {
  const spans = pauses.map(spanOf).sort(([one], [other]) => one - other);
  let [total, until] = [0, 0];
  for (const [from, to] of spans) {
    total += Math.max(0, to - Math.max(from, until));
    until = Math.max(until, to);
  }
  return total;
}

function spanOf({ opened_at: opened, decision, status }) {
  const from = new Date(opened).getTime();
  if (decision) return [from, new Date(decision.decided_at).getTime()];
  return [from, status === "open" ? Date.now() : from];
}

function outcome({ output, error }) {
  if (error) {
    const { code, message, step } = error;
    const where = step ? ` at ${visible(step)}` : "";
    return [section("What went wrong", element("p", null, `${visible(message)} (${code}${where})`))];
  }
  return output === null ? [] : [section("Output", ...outputElement(output))];
}

function section(title, ...content) {
  return element("section", { class: "subject" }, element("h3", null, title), ...content);
}

// ── The tree ────────────────────────────────────────────────────────────────────────────────────

function tree(run, events) {
  const roots = stepTree(run, events);
  if (!roots.length) return element("p", { class: "remark" }, "No step has begun yet.");
  return element("ol", { class: "tree" }, roots.map(node));
}

function node({ path, name, status, details, output, pauses, children }) {
  const title = element(
    "p",
    { class: "step", "data-status": status },
    element("span", { class: "mark", "aria-hidden": "true" }),
    element("strong", null, visible(name)),
    " ",
    element("span", { class: "where" }, [statusOf(status), ...details].filter(Boolean).join(" · ")),
  );
  const shown = output !== null && output !== undefined && disclosure(path, outputElement(output));
  const asked = pauses.length && element("ul", { class: "asked" }, pauses.map(question));
  const within = children.length && element("ol", { class: "tree" }, children.map(node));
  return element("li", null, title, asked || null, shown || null, within || null);
}

function disclosure(path, content) {
  return element("details", { "data-path": path }, element("summary", null, "Output"), ...content);
}

function question(pause) {
  const [from, to] = spanOf(pause);
  const waited = pause.decision || pause.status === "open" ? `waited ${lasting(to - from)}` : "";
  const reason = pause.decision?.feedback;
  return element(
    "li",
    null,
    element("span", { class: "kind", "data-kind": pause.kind }, kindOf(pause)),
    " ",
    element("a", { href: `#${encodeURIComponent(pause.id)}`, dir: "auto" }, visible(pause.message)),
    element("p", { class: "when" }, ...outcomeOf(pause), waited && ` · ${waited}`),
    reason && element("blockquote", { dir: "auto" }, visible(reason)),
  );
}
