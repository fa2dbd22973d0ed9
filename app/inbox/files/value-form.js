// The form for a value, made from its JSON Schema; and JSON by hand for what it cannot say.

import { element } from "./element.js";
import {
  choiceField,
  choicesField,
  jsonField,
  LEFT_OUT,
  numberField,
  textField,
} from "./fields.js";
import { isObject, pointerToken, writeJson } from "./json.js";
import { choicesOf, controlOf, itemOf, plain } from "./schema.js";

const MASK = "***";
const ONE_LINE = 100;

/**
 * Asks for a value: by the fields that its schema calls for, or by a text area that takes JSON.
 *
 * `initial` is what stands there at first; `choices` names what a schema only lists; `order` as in
 * `choicesField`. References in the schema are read from `root`.
 */
export class ValueForm {
  #fields;
  #json;
  #isJson;
  #room = element("div");

  constructor(about) {
    const { schema, root, initial } = about;
    const kind = controlOf(plain(schema, root), root);
    this.pointer = about.pointer;
    this.#json = jsonField({ ...described(about), hint: "As JSON." });
    this.#isJson = kind === "json" || !isShown(kind, plain(schema, root), initial);
    this.element = element("div", { class: "value-form" }, this.#room);
    if (!this.#isJson) {
      this.#fields = kind === "object" ? new ObjectFields(about) : fieldFor(about);
      this.element.append(this.#switch());
    }
    this.#draw();
  }

  /** The value, or LEFT_OUT; throws a Misfit after it has said in the form what is wrong. */
  value() {
    return this.#used.value();
  }

  complain(pointer, message) {
    return this.#used.complain(pointer, message) || this.#json.complain(pointer, message);
  }

  focus() {
    this.#used.focus();
  }

  get hasFault() {
    return this.#used.hasFault;
  }

  get #used() {
    return this.#isJson ? this.#json : this.#fields;
  }

  #draw() {
    this.#room.replaceChildren(this.#used.element);
  }

  #switch() {
    const tick = element("input", { type: "checkbox" });
    tick.addEventListener("change", () => {
      if (tick.checked) this.#json.write(this.#valueSoFar());
      this.#isJson = tick.checked;
      this.#draw();
    });
    const words = element("span", null, "Write it as JSON");
    return element("label", { class: "choice as-json" }, tick, words);
  }

  #valueSoFar() {
    try {
      return this.#fields.value();
    } catch {
      return LEFT_OUT;
    }
  }
}

/** Whether the fields can show what stands there at first. */
function isShown(kind, schema, initial) {
  if (initial === undefined) return true;
  if (kind === "object") {
    return isObject(initial) && Object.keys(initial).every((name) => name in schema.properties);
  }
  return kind !== "choices" && (kind !== "anything" || typeof initial === "string");
}

/** The members of an object, each with a field of its own. */
class ObjectFields {
  #members;

  constructor({ pointer, schema, root, initial = {} }) {
    const { properties, required, description } = plain(schema, root);
    const needed = new Set(required);
    this.#members = Object.entries(properties).map(([name, member]) => ({
      name,
      field: fieldFor({
        schema: member,
        root,
        pointer: `${pointer}/${pointerToken(name)}`,
        label: member.title ?? name,
        isNeeded: needed.has(name),
        initial: Object.hasOwn(initial, name) ? initial[name] : undefined,
      }),
    }));
    this.element = element(
      "div",
      { class: "fields" },
      description && element("p", { class: "hint" }, description),
      this.#fields.map((field) => field.element),
    );
  }

  /** The object; throws after every field that is wrong has said so. */
  value() {
    const members = [];
    const misfits = [];
    for (const { name, field } of this.#members) {
      try {
        members.push([name, field.value()]);
      } catch (misfit) {
        misfits.push(misfit);
      }
    }
    if (misfits.length) throw misfits[0];
    return Object.fromEntries(members.filter(([, value]) => value !== LEFT_OUT));
  }

  complain(pointer, message) {
    return this.#fields.some((field) => field.complain(pointer, message));
  }

  focus() {
    const field = this.#fields.find((each) => each.hasFault) ?? this.#fields[0];
    field?.focus();
  }

  get hasFault() {
    return this.#fields.some((field) => field.hasFault);
  }

  get #fields() {
    return this.#members.map(({ field }) => field);
  }
}

/** One field for a value, whatever it is: what has no control of its own is written as JSON. */
function fieldFor({ root, choices, order, ...given }) {
  const schema = plain(given.schema, root);
  const about = { ...described({ ...given, root }), isNullable: schema.isNullable };
  switch (controlOf(schema, root)) {
    case "string":
      if (schema.isSensitive) return secretField(about);
      return textField({ ...about, ...formOf(schema, about) });
    case "anything":
      return textField(about);
    case "number":
      return numberField({ ...about, isInteger: schema.type === "integer" });
    case "boolean":
      return choiceField({ ...about, choices: YES_AND_NO });
    case "choice":
      return choiceField({ ...about, choices: choices ?? named(choicesOf(schema)) });
    case "choices":
      return severalField(schema, { ...about, root, choices, order });
    default:
      return jsonField(about);
  }
}

/** What a schema says about its field, whatever the control is. */
function described({ schema, root, pointer, label, isNeeded, initial }) {
  const { description, default: usual } = plain(schema, root);
  return { pointer, label, hint: description, isNeeded, initial: initial ?? usual ?? initial };
}

function formOf({ format, maxLength, isDecimal }, { initial }) {
  const isShort = Boolean(format) || isDecimal || maxLength <= ONE_LINE;
  return { isOneLine: isShort && !String(initial ?? "").includes("\n"), isDecimal };
}

/** What stands there already is masked, and stays when nothing is written. */
function secretField({ initial, hint, isNeeded, ...about }) {
  const isKept = initial === MASK;
  return textField({
    ...about,
    hint: isKept ? "Sensitive. Left empty, it stays as it is." : (hint ?? "Sensitive."),
    isNeeded: isNeeded && !isKept,
    isHidden: true,
  });
}

function severalField(schema, { root, choices, order, initial, ...about }) {
  const offered = choices ?? named(choicesOf(itemOf(schema, root)));
  if (schema.maxItems === 1) return oneOfSeveral(schema, { ...about, choices: offered });
  if (initial?.length) return jsonField({ ...about, initial });
  return choicesField({ ...about, least: schema.minItems, choices: offered, order });
}

/** A list of one is chosen like one value. */
function oneOfSeveral({ minItems }, { choices, ...about }) {
  const lists = choices.map((choice) => ({ ...choice, value: [choice.value] }));
  return choiceField({ ...about, isNeeded: minItems === 1, choices: lists });
}

const YES_AND_NO = [
  { label: "Yes", value: true },
  { label: "No", value: false },
];

function named(values) {
  return values.map((value) => ({
    label: typeof value === "string" ? value : writeJson(value),
    value,
  }));
}
