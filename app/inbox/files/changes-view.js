// Shows what was changed: the members that differ, texts with the words that went and came.

import { changesBetween, wordsBetween } from "./diff.js";
import { element } from "./element.js";
import { writeJson } from "./json.js";
import { hidingAt, visible } from "./values.js";

const MASK = "***";
const NOTHING = "nothing";

/** What differs, as an element; null if nothing does. What is `hidden`, or was masked, is not shown. */
export function changesElement(before, after, hidden = []) {
  const isHidden = hidingAt(hidden);
  const changes = changesBetween(before, after).filter((each) => !isKept(each));
  if (!changes.length) return null;
  return element("dl", { class: "diff" }, changes.map((each) => changed(each, isHidden)));
}

/** A masked value that is sent back, or left out, stays what it is. */
function isKept({ before, after }) {
  return after === MASK || (before === MASK && after === undefined);
}

function changed({ pointer, before, after }, isHidden) {
  const isSecret = isHidden(pointer) || before === MASK;
  const content = isSecret ? secret() : pieces(before, after);
  const name = element("dt", null, visible(spelled(pointer)));
  return element("div", null, name, element("dd", { dir: "auto" }, content));
}

/** A place as people read it: `to › street`. */
function spelled(pointer) {
  const tokens = pointer.split("/").slice(1);
  const names = tokens.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
  return names.map((name) => (/^\d+$/.test(name) ? String(Number(name) + 1) : name)).join(" › ") || "all of it";
}

function secret() {
  return element("span", { class: "hidden-value" }, "••• another value, not shown");
}

function pieces(before, after) {
  if (typeof before === "string" && typeof after === "string") {
    return wordsBetween(before, after).map(({ is, text }) => PIECES[is](visible(text)));
  }
  return [PIECES.gone(written(before)), " ", PIECES.new(written(after))];
}

const PIECES = {
  same: (text) => text,
  gone: (text) => element("del", null, aside("removed: "), text),
  new: (text) => element("ins", null, aside("added: "), text),
};

/** Said to those who do not see how a piece looks. */
function aside(words) {
  return element("span", { class: "aside" }, words);
}

function written(value) {
  if (value === undefined) return NOTHING;
  return visible(typeof value === "string" ? value : writeJson(value));
}
