// Shows what is under review: as it reads, as Markdown, or as JSON, whichever one likes.

import { element, newId } from "./element.js";
import { writeJson } from "./json.js";
import { looksLikeMarkdown, markdownElement } from "./markdown.js";
import { valueElement, visible } from "./values.js";

const WAYS = {
  text: { label: "Text", show: (value) => valueElement(value) },
  markdown: {
    label: "Markdown",
    show: (value) => valueElement(value, [], { prose: markdownElement }),
  },
  json: {
    label: "JSON",
    show: (value) => element("pre", { tabindex: "0" }, visible(writeJson(value, 2))),
  },
};

/** A value with the ways to look at it. */
export function outputElement(value) {
  const room = element("div", { class: "output" });
  const name = newId();
  const first = textsIn(value).some(looksLikeMarkdown) ? "markdown" : "text";
  const choices = Object.keys(WAYS).map((way) => choice(way, { name, first, room, value }));
  room.append(WAYS[first].show(value));
  return [
    element("div", { class: "ways", role: "radiogroup", "aria-label": "Show it as" }, choices),
    room,
  ];
}

function choice(way, { name, first, room, value }) {
  const show = () => room.replaceChildren(WAYS[way].show(value));
  const control = element("input", { type: "radio", name, checked: way === first, change: show });
  return element("label", null, control, element("span", null, WAYS[way].label));
}

function textsIn(value) {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(textsIn);
}
