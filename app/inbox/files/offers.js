// What a pause offers to its decider: forms to fill in, and a button for each way to decide.

import { changesElement } from "./changes-view.js";
import { element } from "./element.js";
import { LEFT_OUT } from "./fields.js";
import { ValueForm } from "./value-form.js";
import { actionIn } from "./words.js";

const ANSWERS = {
  interactive: { label: "Your answer", button: "Answer" },
  input: { label: "What is needed", button: "Submit" },
  external_result: { label: "What came of it", button: "Report" },
  route: { label: "Which way on", button: "Go this way" },
};

/**
 * The `forms` and the `offers` of a pause. An offer is `{button, read}`: a button, and a function
 * that gives the decision without its reason and its decider, or throws a Misfit.
 */
export function offersOf(pause) {
  const { allowed } = pause;
  if (allowed.includes("verdict")) return verdicts(pause);
  if (allowed.includes("value")) return answers(pause);
  if (allowed.includes("action")) return actions(pause);
  return { forms: [], offers: [] };
}

function verdicts(pause) {
  const changes = changesOf(pause);
  const approve = offer("Approve", "primary", () => ({ approved: true, ...changes?.read() }));
  const reject = offer("Reject", "danger", () => ({ approved: false }));
  changes?.whenChanged((isChanged) => {
    approve.button.textContent = isChanged ? "Approve with changes" : "Approve";
  });
  return { forms: changes ? [changes] : [], offers: [approve, reject] };
}

/** What may be put in the place of what is shown: the arguments of a call, or an output. */
function changesOf({ allowed, call, output, response_schema: root }) {
  if (allowed.includes("override_arguments")) {
    const hidden = call.sensitive_paths;
    return new Changes("override_arguments", "Change the arguments", root, call.arguments, hidden);
  }
  if (allowed.includes("override_output")) {
    return new Changes("override_output", "Change the output", root, output, []);
  }
  return undefined;
}

/** A form that is closed at first, and counts only if something was changed in it; it says what. */
class Changes {
  #name;
  #make;
  #form;
  #initial;
  #hidden;
  #details;
  #room = element("div");
  #diff = element("section", { class: "subject", "aria-label": "What you change", hidden: true });
  #tell = () => {};

  constructor(name, title, root, initial, hidden) {
    this.#name = name;
    this.#initial = initial;
    this.#hidden = hidden;
    const schema = root.properties[name];
    this.#make = () =>
      new ValueForm({ schema, root, initial, pointer: `/${name}`, label: title, isNeeded: true });
    const discard = element("button", { type: "button" }, "Undo the changes");
    discard.addEventListener("click", () => this.#discard());
    const summary = element("summary", null, title);
    this.#details = element("details", { class: "changes" }, summary, this.#room, discard);
    this.element = element("div", { class: "changing" }, this.#details, this.#diff);
    this.#room.addEventListener("input", () => this.#set(true));
    this.#discard();
  }

  /** Calls back with whether something is changed, whenever that may be otherwise. */
  whenChanged(tell) {
    this.#tell = tell;
  }

  read() {
    return this.isChanged ? { [this.#name]: this.#form.value() } : {};
  }

  complain(pointer, message) {
    return this.#form.complain(pointer, message);
  }

  focus() {
    this.#details.open = true;
    this.#form.focus();
  }

  get hasFault() {
    return this.#form.hasFault;
  }

  #discard() {
    this.#form = this.#make();
    this.#room.replaceChildren(this.#form.element);
    this.#set(false);
  }

  #set(isTouched) {
    const now = isTouched ? this.#form.soFar() : this.#initial;
    const diff = now === LEFT_OUT ? null : changesElement(this.#initial, now, this.#hidden);
    this.#diff.replaceChildren(element("h3", null, "What you change"), ...(diff ? [diff] : []));
    this.#diff.hidden = !diff;
    // What is not right yet is a change, too: it has to be mended or undone before it is approved.
    this.isChanged = isTouched && (now === LEFT_OUT || Boolean(diff));
    this.#tell(this.isChanged);
  }
}

function answers(pause) {
  const { label, button } = ANSWERS[pause.kind] ?? ANSWERS.interactive;
  const form = answerForm(pause, label);
  const offers = [offer(button, "primary", () => ({ value: form.value() }))];
  if (pause.allowed.includes("decline")) {
    offers.push(offer("Decline", "danger", () => ({ approved: false })));
  }
  return { forms: [form], offers };
}

function answerForm({ choices, response_schema: root }, label) {
  return new ValueForm({
    schema: root.properties.value,
    root,
    pointer: "/value",
    label,
    isNeeded: true,
    choices: choices?.map(({ name, description: hint }) => ({ label: name, hint, value: name })),
    order: choices && inOrder,
  });
}

function inOrder(labels) {
  return labels.length > 1 ? `In this order: ${labels.join(", then ")}.` : "";
}

function actions({ response_schema: root }) {
  const { action, value } = root.properties;
  const label = "Outcome, if you use one";
  const form =
    value && new ValueForm({ schema: value, root, pointer: "/value", label, isNeeded: true });
  const offers = action.enum.map((name, at) =>
    offer(actionIn(name), at === 0 ? "primary" : name === "fail" ? "danger" : "", () => ({
      action: name,
      ...(name === "use_value" && { value: form.value() }),
    })),
  );
  return { forms: form ? [form] : [], offers };
}

function offer(label, look, read) {
  return { button: element("button", { type: "button", class: look }, label), read };
}
