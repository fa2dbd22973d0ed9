// Shows JSON as a person reads it: objects as tables, lists as lists, texts as they are.

import { element } from "./element.js";
import { isObject, pointerToken, writeJson } from "./json.js";

const DEEPEST = 4;
const LONG = 1500;
const MASK = "***";

/**
 * A value as an element. A sign stands in the place of what is `hidden`: JSON pointers, whose `*`
 * stands for any item or key. `prose` makes the elements of texts.
 */
export function valueElement(value, hidden = [], { prose = text } = {}) {
  return shown(value, { pointer: "", depth: 0, isHidden: hidingAt(hidden), prose });
}

/** An object's members as the rows of a table. */
export function valueTable(members, hidden = []) {
  return table(members, { pointer: "", depth: 0, isHidden: hidingAt(hidden), prose: text });
}

function shown(value, at) {
  if (value === MASK || at.isHidden(at.pointer)) return hiddenSign();
  if (Array.isArray(value)) return value.length ? list(value, at) : remark("empty list");
  if (isObject(value)) return Object.keys(value).length ? table(value, at) : remark("empty");
  if (typeof value === "string") return value ? at.prose(value) : remark("empty text");
  return element("code", { class: "literal" }, String(value));
}

function table(members, at) {
  if (at.depth >= DEEPEST) return tooDeep(members, at);
  const rows = Object.entries(members).map(([name, value]) =>
    element(
      "tr",
      null,
      element("th", { scope: "row" }, visible(name)),
      element("td", null, shown(value, within(at, name))),
    ),
  );
  return element("table", { class: "value" }, element("tbody", null, rows));
}

function list(items, at) {
  if (at.depth >= DEEPEST) return tooDeep(items, at);
  const rows = items.map((item, index) => element("li", null, shown(item, within(at, index))));
  return element("ol", { class: "value" }, rows);
}

function within(at, name) {
  return { ...at, pointer: `${at.pointer}/${pointerToken(name)}`, depth: at.depth + 1 };
}

/** What is masked came masked, so that its JSON may be shown as it is. */
function tooDeep(value) {
  return element("pre", { tabindex: "0" }, visible(writeJson(value, 2)));
}

function text(value) {
  const isLong = value.length > LONG;
  const attributes = isLong ? { class: "text long", tabindex: "0" } : { class: "text" };
  return element("span", { ...attributes, dir: "auto" }, visible(value));
}

function remark(words) {
  return element("span", { class: "remark" }, words);
}

function hiddenSign() {
  const title = "Sensitive: it is not shown";
  return element("span", { class: "hidden-value", title }, "••• hidden");
}

// Controls, and what turns the direction of writing or takes no room: texts look like others by it.
const INVISIBLE =
  /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A text whose invisible characters are shown by their numbers. */
export function visible(value) {
  return value.replace(INVISIBLE, (letter) => {
    const number = letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${number}⟩`;
  });
}

/** Whether a pointer is one of those that are hidden. */
export function hidingAt(patterns) {
  const all = patterns.map((pattern) => pattern.split("/"));
  return (pointer) => {
    const tokens = pointer.split("/");
    return all.some(
      (pattern) =>
        pattern.length === tokens.length &&
        pattern.every((token, index) => token === "*" || token === tokens[index]),
    );
  };
}
