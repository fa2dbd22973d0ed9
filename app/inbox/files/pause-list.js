// The list of open pauses. It grows at its end and shrinks where one is closed; nothing else moves.

import { element } from "./element.js";
import { writeJson } from "./json.js";
import { deadline, past } from "./moments.js";
import { visible } from "./values.js";
import { kindOf } from "./words.js";

const NONE = "Nothing waits for a decision.";
const NONE_LIKE_THAT = "Nothing like that waits for a decision.";

/** The address of a pause within the page. */
export function addressOf(id) {
  return `#${encodeURIComponent(id)}`;
}

/** Keeps an element in step with what is open. */
export class PauseList {
  #list;
  #nothing;
  #more;
  #entries = new Map();
  #selected;

  constructor(root, { onMore }) {
    this.#list = root.querySelector("ol");
    this.#nothing = root.querySelector(".nothing");
    this.#more = root.querySelector(".more");
    this.#more.addEventListener("click", onMore);
  }

  /** Shows these pauses, the longest waiting first. */
  show({ pauses, hasMore, isFiltered = false }) {
    const open = new Set(pauses.map((pause) => pause.id));
    for (const id of this.#entries.keys()) if (!open.has(id)) this.#drop(id);
    for (const pause of pauses) this.#put(pause);
    this.#nothing.textContent = isFiltered ? NONE_LIKE_THAT : NONE;
    this.#nothing.hidden = pauses.length > 0;
    this.#more.hidden = !hasMore;
  }

  /** Moves the focus to the pause that was looked at last, else to the first one. */
  focus() {
    const last = this.#entries.get(this.#selected)?.link;
    (last ?? this.#list.querySelector("a"))?.focus();
  }

  /** Marks the pause that is looked at. */
  select(selected) {
    if (selected) this.#selected = selected;
    for (const [id, { link }] of this.#entries) {
      if (id === selected) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  #put(pause) {
    const text = writeJson([pause.message, pause.expires_at, pause.votes.length]);
    let entry = this.#entries.get(pause.id);
    if (!entry) {
      entry = { link: element("a", { href: addressOf(pause.id) }) };
      this.#entries.set(pause.id, entry);
      this.#list.append(element("li", null, entry.link));
    }
    if (entry.text !== text) entry.link.replaceChildren(...summary(pause));
    entry.text = text;
  }

  #drop(id) {
    const { link } = this.#entries.get(id);
    const item = link.parentElement;
    const hadFocus = item.contains(document.activeElement);
    const neighbour = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    this.#entries.delete(id);
    if (hadFocus) neighbour?.firstElementChild.focus();
  }
}

function summary(pause) {
  const when = [past(pause.opened_at)];
  if (pause.expires_at) when.push(" · expires ", deadline(pause.expires_at));
  return [
    element("span", { class: "kind", "data-kind": pause.kind }, kindOf(pause)),
    element("span", { class: "when" }, ...when),
    element("strong", { dir: "auto" }, visible(pause.message)),
    element("span", { class: "where" }, where(pause)),
  ];
}

function where({ workflow, step, requested_by: by, policy, votes }) {
  const agreed = votes.filter(({ approved }) => approved).length;
  const progress = policy.quorum > 1 && `${agreed} of ${policy.quorum} approvals`;
  return [workflow, step.name, by && `for ${visible(by)}`, progress].filter(Boolean).join(" · ");
}
