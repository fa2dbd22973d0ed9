// Shows one pause: what is asked, about what, and the form that decides it or what was decided.

import { changesElement } from "./changes-view.js";
import { decisionForm } from "./decision-form.js";
import { element } from "./element.js";
import { historyElement, runLink } from "./history.js";
import { writeJson } from "./json.js";
import { deadline, past } from "./moments.js";
import { outputElement } from "./output-view.js";
import { valueElement, valueTable, visible } from "./values.js";
import { closedAs, kindOf, verdictOf } from "./words.js";

/** Fills an element with a pause. What is known of it may change; its form stays. */
export class PauseView {
  #root;
  #send;
  #runOf;
  #pause;
  #facts;
  #subjects;
  #answer;
  #history;

  /**
   * `send(pause, decision, key)` decides; what it throws is shown by the form. `runOf(pause)` gives the
   * pause's run, or undefined where it cannot be had.
   */
  constructor(root, { send, runOf }) {
    this.#root = root;
    this.#send = send;
    this.#runOf = runOf;
  }

  /** The pause that is shown, if one is. */
  get pause() {
    return this.#pause;
  }

  /** Shows a pause, and remarks about how it was closed. */
  show(pause, remarks = []) {
    const before = this.#pause;
    this.#pause = pause;
    if (before?.id !== pause.id) this.#begin();
    const isNew = before?.id !== pause.id;
    if (isNew || writeJson(before) !== writeJson(pause)) replace(this.#facts, factsOf(pause), "h2");
    if (isNew || aboutWhat(before) !== aboutWhat(pause)) {
      this.#subjects.replaceChildren(...subjects(pause));
    }
    const isOther = isNew || before.status !== pause.status || before.digest !== pause.digest;
    if (isOther || remarks.length) {
      this.#draw(pause, remarks);
      this.#tellHistory(pause);
    }
  }

  /** Shows something in the place of a pause. */
  showInstead(...content) {
    this.leave();
    this.#root.replaceChildren(...content);
  }

  /** Something else takes the place. */
  leave() {
    this.#pause = undefined;
  }

  #begin() {
    this.#facts = element("div", { class: "facts" });
    this.#subjects = element("div", { class: "facts" });
    this.#answer = element("div", { class: "answer" });
    this.#history = element("div", { class: "answer" });
    this.#root.replaceChildren(
      backLink(),
      this.#facts,
      this.#subjects,
      this.#answer,
      this.#history,
    );
  }

  async #tellHistory(pause) {
    const run = await this.#runOf(pause);
    if (!run || this.#pause?.id !== pause.id) return;
    this.#history.replaceChildren(
      element(
        "section",
        { class: "subject", "aria-label": "The run so far" },
        element("h3", null, "The run so far"),
        historyElement(run, pause.id),
        element("p", null, runLink(pause, "See the whole run")),
      ),
    );
  }

  #draw(pause, remarks) {
    const isOpen = pause.status === "open";
    const told = remarks.map((remark) => notice(element("p", null, remark)));
    const content = isOpen ? [...told, this.#form(pause)] : [closing(pause, remarks)];
    replace(this.#answer, content, ".notice");
  }

  #form(pause) {
    if (!pause.you_may_decide) return notice(element("p", null, "You may not decide this pause."));
    return decisionForm(pause, (decision, key) => this.#send(pause, decision, key));
  }
}

/** Puts other content into an element; where that had the focus, a part of the new one has it. */
function replace(where, content, focused) {
  const hadFocus = where.contains(document.activeElement);
  where.replaceChildren(...content);
  if (hadFocus) where.querySelector(focused)?.focus();
}

/** The way from a pause to the list, where only one of them has room. */
export function backLink() {
  return element("a", { class: "back", href: "#" }, "← All pauses");
}

function factsOf(pause) {
  return [
    element("span", { class: "kind", "data-kind": pause.kind }, kindOf(pause)),
    element("h2", { tabindex: "-1", dir: "auto" }, visible(pause.message)),
    ...quorum(pause),
    element("dl", { class: "particulars" }, particulars(pause).map(particular)),
  ];
}

/** What a pause is about, as text: where that is another, it is shown anew. */
function aboutWhat({ call, output, error, metadata }) {
  return writeJson([call, output, error, metadata]);
}

/** How many of those who have to agree did, and who. */
function quorum({ policy, votes, status }) {
  if (policy.quorum < 2) return [];
  const agreed = votes.filter(({ approved }) => approved).length;
  const words = `${agreed} of ${policy.quorum} approvals`;
  const bar = element("progress", { max: policy.quorum, value: agreed, "aria-label": words });
  const waits = status === "open" ? `, ${policy.quorum - agreed} more needed` : "";
  const said = element("span", { class: "votes" }, `${words}${waits}`);
  const each = votes.map((one) => element("li", null, ...vote(one)));
  return [element("div", { class: "quorum" }, bar, said, element("ul", null, each))];
}

function vote({ by, approved, at, feedback }) {
  const reason = feedback ? `: ${visible(feedback)}` : "";
  return [`${visible(by)} ${approved ? "approved" : "rejected"} `, past(at), reason];
}

/** Who asks, where, and until when. */
function particulars(pause) {
  const { step, policy, position } = pause;
  return [
    ["Asked by", pause.requested_by],
    ["Workflow", pause.workflow],
    ["Step", step.path],
    ["Agent", pause.agent],
    ["Channel", pause.channel],
    ["Opened", past(pause.opened_at)],
    ["Expires", pause.expires_at && deadline(pause.expires_at)],
    ["Call", position && position.of > 1 && `${position.index + 1} of ${position.of} that ask`],
    ["Approved, it goes", pause.branch],
    ["Asked too", pause.escalated_to],
    ["Approvers", policy.approvers.join(", ")],
    ["Thread", element("code", null, pause.thread_id)],
    ["Run", runLink(pause, element("code", null, pause.run_id))],
  ];
}

function particular([name, value]) {
  if (!value) return [];
  const said = typeof value === "string" ? visible(value) : value;
  return element("div", null, element("dt", null, name), element("dd", null, said));
}

/** What the question is about: a call, an output, an error, and what the caller said beside it. */
function subjects({ call, output, error, metadata }) {
  const found = [];
  if (call) found.push(callSection(call));
  if (output !== null) found.push(section("Output under review", ...outputElement(output)));
  if (error !== null) found.push(section("What went wrong", valueElement(error)));
  if (Object.keys(metadata).length) found.push(disclosure("Metadata", valueTable(metadata)));
  return found;
}

function callSection(call) {
  return section(
    element("code", null, visible(call.tool)),
    element("p", { class: "description" }, visible(call.description)),
    valueElement(call.arguments, call.sensitive_paths),
  );
}

function section(title, ...content) {
  return element("section", { class: "subject" }, element("h3", null, title), ...content);
}

function disclosure(title, content) {
  return element("details", { class: "subject" }, element("summary", null, title), content);
}

/** How a pause was closed, by whom and with what, and what follows. */
function closing(pause, remarks) {
  const [first, ...others] = remarks.length ? remarks : [closedAs(pause.status)];
  return notice(
    element("p", null, first),
    pause.decision && decisionElement(pause),
    ...others.map((remark) => element("p", null, remark)),
  );
}

function notice(...content) {
  return element("div", { class: "notice", role: "status", tabindex: "-1" }, ...content);
}

function decisionElement(pause) {
  const { by, feedback, decided_at: at } = pause.decision;
  return element(
    "div",
    { class: "decision" },
    element("p", null, element("strong", null, verdictOf(pause)), ` by ${visible(by)}, `, past(at)),
    feedback && element("blockquote", { dir: "auto" }, visible(feedback)),
    given(pause),
  );
}

/** The answer, or what was changed in what had been proposed. */
function given({ call, output, decision }) {
  if (decision.value !== null && decision.value !== undefined) return valueElement(decision.value);
  const { override_arguments: changed, override_output: other } = decision;
  if (changed) return changesElement(call.arguments, changed, call.sensitive_paths);
  return other === null || other === undefined ? null : changesElement(output, other);
}
