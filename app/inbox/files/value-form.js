// The form for a value, made from its JSON Schema; and JSON by hand for what it cannot say.

import { element } from "./element.js";
import {
  choiceField,
  choicesField,
  dateField,
  isDated,
  jsonField,
  LEFT_OUT,
  numberField,
  textField,
} from "./fields.js";
import { isObject, writeJson } from "./json.js";
import { choicesOf, controlOf, itemOf, plain, wrongWith } from "./schema.js";
import { ListFields, ObjectFields, OptionalFields } from "./nested-fields.js";

const MASK = "***";
const ONE_LINE = 100;
const DEEPEST = 6;

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
    this.pointer = about.pointer;
    this.#json = jsonField({ ...described(about), hint: "As JSON." });
    this.#isJson = controlFor(about, 0) === "json";
    this.element = element("div", { class: "value-form" }, this.#room);
    if (!this.#isJson) {
      this.#fields = fieldFor(about, 0);
      this.element.append(this.#switch());
    }
    this.#draw();
  }

  /** The value, or LEFT_OUT; throws a Misfit after it has said in the form what is wrong. */
  value() {
    return this.#used.value();
  }

  /** The value as far as it is right; LEFT_OUT where it is not. Says nothing. */
  soFar() {
    try {
      return this.#used.value({ isQuiet: true });
    } catch {
      return LEFT_OUT;
    }
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
      if (tick.checked) this.#json.write(this.soFar());
      this.#isJson = tick.checked;
      this.#draw();
    });
    const words = element("span", null, "Write it as JSON");
    return element("label", { class: "choice as-json" }, tick, words);
  }
}

/** The control that can ask for a value and show what stands there at first: "json" if no other can. */
function controlFor({ schema, root, initial }, depth) {
  const known = plain(schema, root);
  const control = depth > DEEPEST ? "json" : controlOf(known, root);
  return isShown(control, known, root, initial) ? control : "json";
}

function isShown(control, schema, root, initial) {
  if (initial === undefined || initial === null) return true;
  switch (control) {
    case "object":
      return isObject(initial) && Object.keys(initial).every((name) => name in schema.properties);
    case "list":
      return Array.isArray(initial);
    case "choices":
      return Array.isArray(initial) && areKnown(initial, choicesOf(itemOf(schema, root)));
    case "string":
    case "anything":
      return typeof initial === "string" || schema.isDecimal;
    default:
      return true;
  }
}

/** Whether each is one of those that may be ticked, and none comes twice. */
function areKnown(values, choices) {
  const written = values.map((value) => writeJson(value));
  const known = new Set(choices.map((choice) => writeJson(choice)));
  return new Set(written).size === written.length && written.every((each) => known.has(each));
}

/** One field for a value, whatever it is: what has no control of its own is written as JSON. */
function fieldFor({ choices, order, ...given }, depth) {
  const { root } = given;
  const schema = plain(given.schema, root);
  const about = {
    ...described(given),
    isNullable: schema.isNullable,
    check: (value) => wrongWith(value, schema),
  };
  switch (controlFor(given, depth)) {
    case "string":
      if (schema.isSensitive) return secretField(about);
      if (isDated(schema.format)) return dateField({ ...about, format: schema.format });
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
    case "object":
      return objectFields(schema, about, { root, depth });
    case "list":
      return listFields(schema, about, { root, depth });
    default:
      return jsonField(about);
  }
}

/** What a schema says about its field, whatever the control is. */
function described({ schema, root, pointer, label, isNeeded, initial }) {
  const { description, default: usual } = plain(schema, root);
  return { pointer, label, hint: description, isNeeded, initial: initial ?? usual ?? initial };
}

function objectFields({ properties, required = [] }, about, { root, depth }) {
  const make = (initial) =>
    new ObjectFields({
      ...about,
      isOutermost: depth === 0,
      members: Object.entries(properties).map(([name, member]) => ({
        name,
        make: (pointer) =>
          fieldFor(
            {
              schema: member,
              root,
              pointer,
              label: member.title ?? name,
              isNeeded: required.includes(name),
              initial: Object.hasOwn(initial ?? {}, name) ? initial[name] : undefined,
            },
            depth + 1,
          ),
      })),
    });
  const isOptional = depth > 0 && (about.isNullable || !about.isNeeded);
  return isOptional ? new OptionalFields({ ...about, make }) : make(about.initial);
}

function listFields(schema, about, { root, depth }) {
  const item = (pointer, label, initial) =>
    fieldFor({ schema: schema.items, root, pointer, label, isNeeded: true, initial }, depth + 1);
  const make = (initial) =>
    new ListFields({ ...about, initial: initial ?? undefined, item, least: schema.minItems ?? 0 });
  return about.isNullable ? new OptionalFields({ ...about, make }) : make(about.initial);
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

function severalField(schema, { root, choices, order, ...about }) {
  const offered = choices ?? named(choicesOf(itemOf(schema, root)));
  if (schema.maxItems === 1) return oneOfSeveral(schema, { ...about, choices: offered });
  const [least, most] = [schema.minItems, schema.maxItems];
  return choicesField({ ...about, check: undefined, least, most, choices: offered, order });
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
