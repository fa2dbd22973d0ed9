// Shows Markdown: the part of CommonMark and of GitHub's tables that models write. It builds elements and never
// markup, so that whatever stands in a text can do nothing: HTML is text, pictures are links, and links lead to
// the web or to a mailbox alone.

import { element } from "./element.js";
import { visible } from "./values.js";

const DEEPEST = 8;
const MOST = 100_000;
const UNDER = 3; // a heading of a text stands under those of the page

/** A text as Markdown; what is too long for that as it is. */
export function markdownElement(text) {
  const shown = text.length > MOST ? [element("pre", null, visible(text))] : blocks(linesOf(text), 0);
  return element("div", { class: "markdown", dir: "auto" }, shown);
}

/** Whether a text would look otherwise as Markdown. */
export function looksLikeMarkdown(text) {
  return MARKS.test(text);
}

const MARKS =
  /^ {0,3}(#{1,6} |[-*+] \S|\d{1,9}[.)] \S|> |```|~~~)|\*\*\S|__\S|`[^`\n]{1,200}`|\[[^\]\n]{1,200}\]\(|^ {0,3}\|.*\| *$/m;

function linesOf(text) {
  return text.replaceAll("\r\n", "\n").replaceAll("\t", "    ").split("\n");
}

// ── Blocks ──────────────────────────────────────────────────────────────────────────────────────

const HEADING = /^ {0,3}(#{1,6})( .*)?$/;
const FENCE = /^ {0,3}(`{3,}|~{3,}) *([^`]*)$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +)(.*)$/;
const DELIMITER = /^:?-+:?$/;
const READERS = [fence, rule, heading, quote, list, table];

/** The blocks that lines are made of. A reader takes those it knows, or gives nothing. */
function blocks(lines, depth) {
  if (depth > DEEPEST) return [lines.join("\n")];
  const found = [];
  for (let at = 0; at < lines.length; ) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [made, next] = firstOf(lines, at, depth) ?? paragraph(lines, at, depth);
    found.push(made);
    at = next;
  }
  return found;
}

function firstOf(lines, at, depth) {
  for (const read of READERS) {
    const found = read(lines, at, depth);
    if (found) return found;
  }
  return undefined;
}

function heading(lines, at) {
  const match = HEADING.exec(lines[at]);
  if (!match) return undefined;
  const level = Math.min(6, match[1].length + UNDER);
  return [element(`h${level}`, null, inline(titleIn(match[2] ?? ""))), at + 1];
}

/** A title may end with signs as it begins with them. */
function titleIn(text) {
  return text.trim().replace(/(^| )#+$/, "").trim();
}

function rule(lines, at) {
  return RULE.test(lines[at]) ? [element("hr"), at + 1] : undefined;
}

function fence(lines, at) {
  const match = FENCE.exec(lines[at]);
  if (!match) return undefined;
  const closing = new RegExp(`^ {0,3}${match[1][0]}{${match[1].length},} *$`);
  let end = at + 1;
  while (end < lines.length && !closing.test(lines[end])) end += 1;
  const code = lines.slice(at + 1, end).join("\n");
  return [element("pre", { tabindex: "0" }, element("code", null, visible(code))), end + 1];
}

function quote(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return undefined;
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const within = lines.slice(at, end).map((line) => QUOTE.exec(line)[1]);
  return [element("blockquote", null, blocks(within, depth + 1)), end];
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return undefined;
  const isOrdered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  while (end < lines.length && isOfList(lines[end], first)) {
    const [item, next] = listItem(lines, end, depth);
    items.push(item);
    end = next;
  }
  const start = isOrdered && Number.parseInt(first[2], 10) !== 1 ? Number.parseInt(first[2], 10) : null;
  return [element(isOrdered ? "ol" : "ul", { start }, items), end];
}

/** Whether a line begins another item with the same sign. */
function isOfList(line, first) {
  const match = ITEM.exec(line);
  return match !== null && !RULE.test(line) && match[2].at(-1) === first[2].at(-1);
}

/** What stands under an item's first word belongs to it, and what goes on without an empty line before it. */
function listItem(lines, at, depth) {
  const [, before, sign, space, rest] = ITEM.exec(lines[at]);
  const indent = before.length + sign.length + Math.min(space.length, 4);
  const own = [rest];
  let end = at + 1;
  while (end < lines.length && isOfItem(lines, end, indent)) {
    own.push(lines[end].slice(Math.min(indent, indentOf(lines[end]))));
    end += 1;
  }
  while (end > at + 1 && !lines[end - 1].trim()) end -= 1;
  return [element("li", null, tight(blocks(own, depth + 1))), endOfGap(lines, end)];
}

function isOfItem(lines, at, indent) {
  if (!lines[at].trim() || indentOf(lines[at]) >= indent) return true;
  return Boolean(lines[at - 1].trim()) && !beginsBlock(lines, at);
}

function indentOf(line) {
  return line.length - line.trimStart().length;
}

/** Empty lines between two items are passed over. */
function endOfGap(lines, at) {
  let end = at;
  while (end < lines.length && !lines[end].trim()) end += 1;
  return end < lines.length && ITEM.test(lines[end]) ? end : at;
}

/** An item of one paragraph is its words alone. */
function tight(content) {
  const [first, ...others] = content;
  const isTight = first?.tagName === "P" && others.every((each) => /^[OU]L$/.test(each.tagName));
  return isTight ? [...first.childNodes, ...others] : content;
}

function table(lines, at) {
  const [names, under] = [cellsOf(lines[at]), cellsOf(lines[at + 1] ?? "")];
  const isTable = lines[at].includes("|") && under.every((each) => DELIMITER.test(each));
  if (!isTable || names.length !== under.length) return undefined;
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const rows = lines.slice(at + 2, end).map((line) => row("td", names.map((_, n) => cellsOf(line)[n] ?? "")));
  const shown = element(
    "table",
    null,
    element("thead", null, row("th", names)),
    element("tbody", null, rows),
  );
  return [element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Table" }, shown), end];
}

function row(tag, cells) {
  return element("tr", null, cells.map((cell) => element(tag, null, inline(cell))));
}

function cellsOf(line) {
  const within = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return within.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function paragraph(lines, at, depth) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !beginsBlock(lines, end, depth)) end += 1;
  const text = lines.slice(at, end).map((line) => line.trimStart()).join("\n");
  return [element("p", null, inline(text)), end];
}

/** Whether a paragraph ends here, since something else begins. */
function beginsBlock(lines, at) {
  const line = lines[at];
  return [HEADING, FENCE, RULE, QUOTE, ITEM].some((each) => each.test(line));
}

// ── Words ───────────────────────────────────────────────────────────────────────────────────────

// Each looks a limited way ahead, so that no text takes long.
const WORDS = [
  [/\\([!-/:-@[-`{-~])/y, ([, letter]) => letter],
  [/(?<!`)(`{1,4})(?!`)([^]{1,1000}?)(?<!`)\1(?!`)/y, ([, , code]) => spelled("code", code.trim())],
  [/!\[([^\]]{0,500})\]\(\s*<?([^\s()<>]{1,2000})>?(?:\s+["'][^"'\n]{0,500}["'])?\s*\)/y, ([, name, to]) => link(name || "picture", to)],
  [/\[([^\]]{1,500})\]\(\s*<?([^\s()<>]{1,2000})>?(?:\s+["'][^"'\n]{0,500}["'])?\s*\)/y, ([, name, to]) => link(name, to)],
  [/<((?:https?|mailto):[^\s<>]{1,2000})>/y, ([, to]) => link(to, to)],
  [/https?:\/\/[^\s<>()[\]*"'`]{1,2000}[^\s<>()[\]*"'`.,;:!?]/y, ([to]) => link(to, to)],
  [/\*\*\*(\S|\S[^]{0,1000}?\S)\*\*\*/y, ([, text]) => element("strong", null, wrapped("em", text))],
  [/\*\*(\S|\S[^]{0,1000}?\S)\*\*(?!\*)/y, ([, text]) => wrapped("strong", text)],
  [/(?<![\p{L}\p{N}])__(\S|\S[^]{0,1000}?\S)__(?![\p{L}\p{N}])/uy, ([, text]) => wrapped("strong", text)],
  [/~~(\S|\S[^]{0,1000}?\S)~~/y, ([, text]) => wrapped("s", text)],
  [/\*(?=[^\s*])([^*]{0,1000}?[^\s*])\*(?!\*)/y, ([, text]) => wrapped("em", text)],
  [/(?<![\p{L}\p{N}_])_(?=[^\s_])([^_]{0,1000}?[^\s_])_(?![\p{L}\p{N}_])/uy, ([, text]) => wrapped("em", text)],
  [/ {2,20}\n|\\\n/y, () => element("br")],
];
const SPECIAL = /[\\`![<*_~ ]|https?:/g;

/** The words of a block: texts and elements. */
function inline(text) {
  const found = [];
  let plain = "";
  for (let at = 0; at < text.length; ) {
    const next = wordAt(text, at);
    if (next) {
      found.push(visible(plain), next.made);
      plain = "";
      at = next.end;
    } else {
      const end = nextSpecial(text, at + 1);
      plain += text.slice(at, end);
      at = end;
    }
  }
  return [...found, visible(plain)].filter((each) => each !== "");
}

function wordAt(text, at) {
  for (const [pattern, make] of WORDS) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) return { made: make(match), end: at + match[0].length };
  }
  return undefined;
}

function nextSpecial(text, from) {
  SPECIAL.lastIndex = from;
  return SPECIAL.exec(text)?.index ?? text.length;
}

function wrapped(tag, text) {
  return element(tag, null, inline(text));
}

function spelled(tag, text) {
  return element(tag, null, visible(text));
}

/** A link shows where it leads, unless its words do: whoever decides sees that before they follow it. */
function link(name, to) {
  if (!/^(https?:\/\/|mailto:)/i.test(to)) return `${visible(name)} (${visible(to)})`;
  const attributes = { href: to, target: "_blank", rel: "noopener noreferrer", title: visible(to) };
  return element("a", attributes, name === to ? visible(name) : inline(name));
}
