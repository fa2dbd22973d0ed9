// Shows one pause: what is asked, about what, and the form that decides it or what was decided.

import { decisionForm } from "./decision-form.js";
import { element } from "./element.js";
import { writeJson } from "./json.js";
import { deadline, past } from "./moments.js";
import { valueElement, valueTable, visible } from "./values.js";
import { closedAs, kindOf, verdictOf } from "./words.js";

/** Fills an element with a pause. What is known of it may change; its form stays. */
export class PauseView {
  #root;
  #send;
  #pause;
  #facts;
  #answer;

  /** `send(pause, decision, key)` decides; what it throws is shown by the form. */
  constructor(root, send) {
    this.#root = root;
    this.#send = send;
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
    if (!before || writeJson(before) !== writeJson(pause)) {
      replace(this.#facts, factsOf(pause), "h2");
    }
    if (before?.id !== pause.id || before.status !== pause.status) this.#draw(pause, remarks);
  }

  /** Shows something in the place of a pause. */
  showInstead(...content) {
    this.#pause = undefined;
    this.#root.replaceChildren(...content);
  }

  /** Moves the focus to what is shown, as a followed link does. */
  focus() {
    (this.#root.querySelector("h2") ?? this.#root).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  #begin() {
    this.#facts = element("div", { class: "facts" });
    this.#answer = element("div", { class: "answer" });
    this.#root.replaceChildren(backLink(), this.#facts, this.#answer);
  }

  #draw(pause, remarks) {
    const content = pause.status === "open" ? this.#form(pause) : closing(pause, remarks);
    replace(this.#answer, [content], ".notice");
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
    element("dl", null, particulars(pause).map(particular)),
    ...subjects(pause),
  ];
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
    ["Approvers", policy.approvers.join(", ")],
    ["Needs", policy.quorum > 1 && `${policy.quorum} approvals`],
    ["So far", pause.votes.map(vote).join(", ")],
    ["Thread", element("code", null, pause.thread_id)],
    ["Run", element("code", null, pause.run_id)],
  ];
}

function particular([name, value]) {
  if (!value) return [];
  const said = typeof value === "string" ? visible(value) : value;
  return element("div", null, element("dt", null, name), element("dd", null, said));
}

function vote({ by, approved }) {
  return `${by} ${approved ? "approved" : "rejected"}`;
}

/** What the question is about: a call, an output, an error, and what the caller said beside it. */
function subjects({ call, output, error, metadata }) {
  const found = [];
  if (call) found.push(callSection(call));
  if (output !== null) found.push(section("Output under review", valueElement(output)));
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
    given(pause.decision),
  );
}

function given({ value, override_arguments: changed, override_output: output }) {
  const found = [value, changed, output].find((each) => each !== null && each !== undefined);
  return found === undefined ? null : valueElement(found);
}
