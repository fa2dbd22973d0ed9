// The fields of a form: a label, a control, and room to say what is wrong with its value.

import { element, newId, say } from "./element.js";
import { readJson, writeJson } from "./json.js";
import { visible } from "./values.js";

/** What a field gives that is left empty, and may be. */
export const LEFT_OUT = Symbol("left out");

/** What is wrong with what stands in a field. */
export class Misfit extends Error {}

const NEEDED = "Fill this in.";
const MOST_RADIOS = 6;

/** One value of a decision. `pointer` is its place there, as errors name it. */
export class Field {
  #initial;
  #read;
  #fault;
  #controls;
  #isTouched = false;

  /**
   * @param {object} about
   *   pointer, label, hint, isNeeded; `initial`, what stands there at first, if anything does;
   *   `controls`, the elements that take it; `content`, what holds them, if there are several;
   *   `read()`, which gives the value or LEFT_OUT, and throws a Misfit; `check(value)`, which says
   *   what is wrong with it, if anything is.
   */
  constructor({ pointer, label, hint, isNeeded, initial, controls, content, read, check }) {
    this.pointer = pointer;
    this.#initial = initial;
    this.#read = check ? () => checked(read(), check) : read;
    this.#controls = controls;
    this.#fault = element("p", { class: "fault", id: newId(), hidden: true });
    const parts = { label: named(label, isNeeded), hint, fault: this.#fault };
    this.element = content
      ? group({ ...parts, content })
      : single({ ...parts, control: controls[0] });
    this.element.addEventListener("input", () => this.#touch());
  }

  /** The value as it came, or as it was changed; where it is wrong, says so, unless quietly, and throws a Misfit. */
  value({ isQuiet = false } = {}) {
    if (!this.#isTouched && this.#initial !== undefined) return this.#initial;
    try {
      return this.#read();
    } catch (misfit) {
      if (!isQuiet) this.complain(this.pointer, misfit.message);
      throw misfit;
    }
  }

  /** Takes a complaint about its value or a part of it; false if it is about something else. */
  complain(pointer, message) {
    if (pointer !== this.pointer && !pointer.startsWith(`${this.pointer}/`)) return false;
    const part = pointer.slice(this.pointer.length);
    this.#complainOf(part ? `${part}: ${message}` : message);
    return true;
  }

  focus() {
    this.#controls[0]?.focus();
  }

  get hasFault() {
    return !this.#fault.hidden;
  }

  #touch() {
    this.#isTouched = true;
    this.#complainOf("");
  }

  #complainOf(message) {
    say(this.#fault, message && visible(message));
    for (const control of this.#controls) {
      if (message) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    }
  }
}

function checked(value, check) {
  const fault = value === LEFT_OUT ? undefined : check(value);
  if (fault) throw new Misfit(fault);
  return value;
}

function named(label, isNeeded) {
  const optional = element("span", { class: "optional" }, " (optional)");
  return isNeeded ? [visible(label)] : [visible(label), optional];
}

function single({ label, hint, control, fault }) {
  control.id = newId();
  const hinted = hint && element("p", { class: "hint", id: newId() }, visible(hint));
  control.setAttribute("aria-describedby", [hinted?.id, fault.id].filter(Boolean).join(" "));
  const labelled = element("label", { for: control.id }, label);
  return element("div", { class: "field" }, labelled, hinted, control, fault);
}

function group({ label, hint, content, fault }) {
  const hinted = hint && element("p", { class: "hint", id: newId() }, visible(hint));
  const described = [hinted?.id, fault.id].filter(Boolean).join(" ");
  const legend = element("legend", null, label);
  return element(
    "fieldset",
    { class: "field", "aria-describedby": described },
    legend,
    hinted,
    content,
    fault,
  );
}

/** A text of one line or several. An empty one is left out, unless something stood there before. */
export function textField({ isNeeded, isOneLine, isHidden, isDecimal, ...about }) {
  const { initial } = about;
  const control = isHidden
    ? element("input", { type: "password", autocomplete: "off" })
    : isOneLine
      ? element("input", { type: "text", autocomplete: "off" })
      : element("textarea", { rows: "1" });
  if (isDecimal) control.setAttribute("inputmode", "decimal");
  control.value = initial ?? "";
  const read = () => {
    if (control.value || typeof initial === "string") return control.value;
    if (isNeeded) throw new Misfit(NEEDED);
    return LEFT_OUT;
  };
  return new Field({ ...about, isNeeded, controls: [control], read });
}

const NUMBER_NEEDED = "Write a number, such as 12.5.";
const WHOLE_NUMBER_NEEDED = "Write a whole number.";
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const INTEGER = /^-?(0|[1-9]\d*)$/;

/** A number, with the digits that were written. */
export function numberField({ isNeeded, isInteger, isNullable, ...about }) {
  const control = element("input", {
    type: "text",
    inputmode: isInteger ? "numeric" : "decimal",
    autocomplete: "off",
  });
  control.value = String(about.initial ?? "");
  const read = () => {
    const written = control.value.trim();
    if ((isInteger ? INTEGER : NUMBER).test(written)) return readJson(written);
    if (written) throw new Misfit(isInteger ? WHOLE_NUMBER_NEEDED : NUMBER_NEEDED);
    if (isNullable) return null;
    if (isNeeded) throw new Misfit(NEEDED);
    return LEFT_OUT;
  };
  return new Field({ ...about, isNeeded, controls: [control], read });
}

const DATED = {
  date: { type: "date", needed: "Give a date." },
  time: { type: "time", needed: "Give a time." },
  "date-time": { type: "datetime-local", needed: "Give a date and a time." },
};

/** Whether a text of this format has a field that knows its form. */
export function isDated(format) {
  return format in DATED;
}

/** A date, a time, or both: a moment is written in this browser's time zone, and sent in UTC. */
export function dateField({ isNeeded, isNullable, format, ...about }) {
  const { type, needed } = DATED[format];
  const isMoment = format === "date-time";
  const isPlain = isMoment && about.initial !== undefined && !/(Z|[+-]\d\d:\d\d)$/i.test(about.initial ?? "Z");
  const control = element("input", { type, step: format === "date" ? null : "1" });
  control.value = isMoment && !isPlain ? localOf(about.initial) : (about.initial ?? "");
  const hint = isMoment && !isPlain ? [about.hint, `In your time zone, ${zone()}.`] : [about.hint];
  const read = () => {
    if (control.validity.badInput) throw new Misfit(needed);
    if (control.value) return isMoment && !isPlain ? new Date(control.value).toISOString() : control.value;
    if (isNullable) return null;
    if (isNeeded) throw new Misfit(NEEDED);
    return LEFT_OUT;
  };
  const words = hint.filter(Boolean).join(" ");
  return new Field({ ...about, hint: words, isNeeded, controls: [control], read });
}

/** A moment as a field has it; nothing for one that cannot be read. */
function localOf(timestamp) {
  const moment = new Date(timestamp ?? "");
  if (Number.isNaN(moment.getTime())) return "";
  const local = new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

function zone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** One of some values. `choices` are `{label, hint, value}`. */
export function choiceField({ isNeeded, isNullable, choices, ...about }) {
  const empty = { label: "no answer", value: isNullable ? null : LEFT_OUT };
  const offered = isNeeded && !isNullable ? choices : [...choices, empty];
  const make = offered.length > MOST_RADIOS ? select : radios;
  const { controls, content, chosen } = make(offered, about.initial);
  const read = () => {
    if (chosen() === undefined) {
      if (isNeeded) throw new Misfit("Choose one.");
      return LEFT_OUT;
    }
    return offered[chosen()].value;
  };
  return new Field({ ...about, isNeeded, controls, content, read });
}

function radios(offered, initial) {
  const name = newId();
  const controls = offered.map(({ value }) =>
    element("input", { type: "radio", name, checked: isInitial(value, initial) }),
  );
  const content = choiceList(controls, offered);
  const chosen = () => {
    const at = controls.findIndex((control) => control.checked);
    return at < 0 ? undefined : at;
  };
  return { controls, content, chosen };
}

function select(offered, initial) {
  const options = offered.map(({ label, value }, at) =>
    element("option", { value: at, selected: isInitial(value, initial) }, visible(label)),
  );
  const control = element("select", null, element("option", { value: "" }, "Choose …"), options);
  const chosen = () => (control.value === "" ? undefined : Number(control.value));
  return { controls: [control], chosen };
}

function isInitial(value, initial) {
  return initial !== undefined && value !== LEFT_OUT && writeJson(value) === writeJson(initial);
}

/**
 * Several of some values, in the order in which they are ticked: `least` to `most`; `order` says
 * of their labels, in that order, what it means.
 */
export function choicesField({ isNeeded, least = 0, most = Infinity, choices, order, ...about }) {
  const placed = (about.initial ?? []).map((one) => choices.findIndex(({ value }) => isInitial(value, one)));
  let chosen = placed;
  const ticks = choices.map((_, at) =>
    element("input", { type: "checkbox", checked: placed.includes(at) }),
  );
  const said = element("p", { class: "order", role: "status" });
  ticks.forEach((tick, at) =>
    tick.addEventListener("change", () => {
      chosen = tick.checked ? [...chosen, at] : chosen.filter((each) => each !== at);
      if (order) say(said, order(chosen.map((each) => choices[each].label)));
    }),
  );
  const read = () => {
    if (chosen.length < least) throw new Misfit(`Choose at least ${least === 1 ? "one" : least}.`);
    if (chosen.length > most) throw new Misfit(`Choose at most ${most}.`);
    return chosen.map((at) => choices[at].value);
  };
  const content = [choiceList(ticks, choices), said];
  return new Field({ ...about, isNeeded: isNeeded || least > 0, controls: ticks, content, read });
}

function choiceList(controls, choices) {
  const labelled = controls.map((control, at) => ticked(control, choices[at]));
  return element("div", { class: "choices" }, labelled);
}

function ticked(control, { label, hint }) {
  const name = element("span", { id: newId() }, visible(label));
  const about = hint && element("small", { id: newId() }, visible(hint));
  control.setAttribute("aria-labelledby", name.id);
  if (about) control.setAttribute("aria-describedby", about.id);
  return element("label", { class: "choice" }, control, element("span", null, name, about));
}

/** Any value, written as JSON. */
export function jsonField({ isNeeded, ...about }) {
  const control = element("textarea", { rows: "4", class: "json", spellcheck: "false" });
  if (about.initial !== undefined) control.value = writeJson(about.initial, 2);
  const read = () => {
    if (!control.value.trim()) {
      if (isNeeded) throw new Misfit(NEEDED);
      return LEFT_OUT;
    }
    try {
      return readJson(control.value);
    } catch {
      throw new Misfit('This is not JSON. A text stands in double quotes, as in "this".');
    }
  };
  const field = new Field({ ...about, isNeeded, controls: [control], read });
  field.write = (value) => {
    control.value = value === LEFT_OUT ? "" : writeJson(value, 2);
    control.dispatchEvent(new Event("input", { bubbles: true }));
  };
  return field;
}
