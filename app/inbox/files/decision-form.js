// The form that decides a pause: what the pause offers, a reason, and who decides.

import { Problem } from "./api.js";
import { rememberDecider, rememberedDecider } from "./decider.js";
import { element, say } from "./element.js";
import { LEFT_OUT, Misfit, textField } from "./fields.js";
import { writeJson } from "./json.js";
import { offersOf } from "./offers.js";
import { whoIsHere } from "./session.js";
import { refused } from "./words.js";

/**
 * A form for an open pause. `send(decision, key)` decides; where it throws, the form says why, and
 * the same decision is sent again under the same key.
 */
export function decisionForm(pause, send) {
  return new DecisionForm(pause, send).element;
}

/** Nothing is decided but by a button: the Enter key in a field does nothing. */
class DecisionForm {
  #send;
  #keys = new Map();
  #offers;
  #fields;
  #reason;
  #by;
  #isSending = false;
  #status = element("p", { class: "status", role: "alert", hidden: true });

  constructor(pause, send) {
    this.#send = send;
    this.#reason = reasonField(pause);
    this.#by = whoIsHere()?.is_open === false ? null : deciderField(); // else the session says who
    const { forms, offers } = offersOf(pause);
    this.#offers = offers;
    this.#fields = [...forms, this.#reason, ...(this.#by ? [this.#by] : [])];
    for (const { button, read } of offers) {
      button.addEventListener("click", () => this.#decide(read));
    }
    this.element = element(
      "form",
      { novalidate: true, "aria-label": "Decision", submit: (event) => event.preventDefault() },
      this.#fields.map((field) => field.element),
      this.#status,
      element("div", { class: "buttons" }, offers.map(({ button }) => button)),
    );
  }

  async #decide(read) {
    if (this.#isSending) return;
    say(this.#status, "");
    const decision = this.#decision(read);
    if (!decision) return;
    if (decision.by) rememberDecider(decision.by);
    this.#setSending(true);
    try {
      await this.#send(decision, this.#keyOf(decision));
    } catch (error) {
      this.#explain(error);
    } finally {
      this.#setSending(false);
    }
  }

  /** What the form says; undefined if something is wrong with it, which then has the focus. */
  #decision(read) {
    const parts = [];
    for (const part of [read, () => this.#rest()]) {
      try {
        parts.push(part());
      } catch (error) {
        if (!(error instanceof Misfit)) throw error;
      }
    }
    if (parts.length === 2) return Object.assign({}, ...parts);
    this.#focusFault();
    return undefined;
  }

  #rest() {
    const reason = this.#reason.value();
    return {
      ...(reason !== LEFT_OUT && { feedback: reason }),
      ...(this.#by && { by: this.#by.value() }),
    };
  }

  #keyOf(decision) {
    const text = writeJson(decision);
    if (!this.#keys.has(text)) this.#keys.set(text, newKey());
    return this.#keys.get(text);
  }

  #explain(error) {
    const errors = error instanceof Problem ? error.errors : [];
    const unplaced = errors.filter(({ pointer, message }) => !this.#complain(pointer, message));
    const isPlaced = errors.length > 0 && unplaced.length === 0;
    say(this.#status, isPlaced ? "" : refused(error));
    if (isPlaced) this.#focusFault();
  }

  #complain(pointer, message) {
    const within = pointer.replace(/^\/decision/, "");
    return this.#fields.some((field) => field.complain(within, message));
  }

  #focusFault() {
    this.#fields.find((field) => field.hasFault)?.focus();
  }

  #setSending(isSending) {
    this.#isSending = isSending;
    this.element.setAttribute("aria-busy", String(isSending));
    for (const each of this.#offers) each.button.setAttribute("aria-disabled", String(isSending));
  }
}

function reasonField(pause) {
  const field = textField({ pointer: "/feedback", label: "Reason", hint: readerOf(pause) });
  field.element.querySelector("textarea").dataset.field = "reason";
  return field;
}

function readerOf({ kind, level, allowed }) {
  if (kind === "review") return "If you say no, the step reads it.";
  const isAnswered = level === "executor" && !allowed.includes("action");
  return isAnswered ? "If you say no, the model reads it." : "Kept with the decision.";
}

function deciderField() {
  return textField({
    pointer: "/by",
    label: "Your name",
    hint: "Kept with the decision, and remembered in this browser.",
    isNeeded: true,
    isOneLine: true,
    initial: rememberedDecider() || undefined,
  });
}

/** Random enough that nobody else has it; `crypto.randomUUID` is not there on plain http. */
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
