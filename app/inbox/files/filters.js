// Which pauses are listed: chosen in a form, and kept in the page's address.

import { element } from "./element.js";
import { ALL_KINDS } from "./words.js";

const NAMES = ["workflow", "kind", "channel"];
const MINE = "mine";

/** The form's state, which the address has too. */
export class Filters {
  #form;
  #onChange;
  #count;

  constructor(form, { onChange }) {
    this.#form = form;
    this.#onChange = onChange;
    this.#count = form.querySelector(".in-use");
    this.offer({ kind: ALL_KINDS });
    this.#read();
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", () => this.#changed());
    form.querySelector("button").addEventListener("click", () => this.clear());
  }

  /** What the service is asked for. */
  get query() {
    const chosen = NAMES.map((name) => [name, this.#form.elements[name].value]);
    return Object.fromEntries(chosen.filter(([, value]) => value));
  }

  /** Whether a pause that the service has found is wanted. */
  get wants() {
    const isMine = this.#form.elements[MINE].checked;
    return (pause) => !isMine || pause.you_may_decide;
  }

  /** Whether anything is filtered. */
  get isInUse() {
    return this.#inUse > 0;
  }

  /** Offers values to choose from, as `{name: [[value, label], …]}`; what is chosen stays. */
  offer(choices) {
    for (const [name, offered] of Object.entries(choices)) {
      const select = this.#form.elements[name];
      const chosen = select.value;
      const known = offered.some(([value]) => value === chosen) || !chosen ? [] : [[chosen, chosen]];
      const options = [["", "All"], ...offered, ...known];
      select.replaceChildren(
        ...options.map(([value, label]) => element("option", { value, selected: value === chosen }, label)),
      );
    }
  }

  /** Where nobody is asked who they are, everybody may decide everything. */
  set isOpen(isOpen) {
    this.#form.elements[MINE].closest("label").hidden = isOpen;
  }

  clear() {
    for (const name of NAMES) this.#form.elements[name].value = "";
    this.#form.elements[MINE].checked = false;
    this.#changed();
  }

  get #inUse() {
    return Object.keys(this.query).length + Number(this.#form.elements[MINE].checked);
  }

  #read() {
    const asked = new URLSearchParams(location.search);
    for (const name of NAMES) {
      const value = asked.get(name);
      if (!value) continue;
      const select = this.#form.elements[name];
      if (![...select.options].some((each) => each.value === value)) {
        select.append(element("option", { value }, value));
      }
      select.value = value;
    }
    this.#form.elements[MINE].checked = asked.has(MINE);
    this.#form.querySelector("details").open = this.isInUse;
    this.#tell();
  }

  #changed() {
    const query = new URLSearchParams(this.query);
    if (this.#form.elements[MINE].checked) query.set(MINE, "1");
    const written = query.size ? `?${query}` : "";
    history.replaceState(null, "", `${location.pathname}${written}${location.hash}`);
    this.#tell();
    this.#onChange();
  }

  #tell() {
    this.#count.textContent = this.#inUse ? ` (${this.#inUse})` : "";
    this.#form.querySelector("button").hidden = !this.#inUse;
  }
}
