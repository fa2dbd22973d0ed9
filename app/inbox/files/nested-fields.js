// Fields of fields: the members of an object, the items of a list, and what may be left out as a whole.
//
// Each is asked as a single field is: `value()`, `complain(pointer, message)`, `focus()`, `hasFault`.

import { element, newId, say } from "./element.js";
import { LEFT_OUT, Misfit } from "./fields.js";
import { pointerToken } from "./json.js";
import { visible } from "./values.js";

/** The value of every field; throws after each that is wrong has said so. */
function valuesOf(fields, how) {
  const values = [];
  const misfits = [];
  for (const field of fields) {
    try {
      values.push(field.value(how));
    } catch (misfit) {
      misfits.push(misfit);
    }
  }
  if (misfits.length) throw misfits[0];
  return values;
}

function focusFirst(fields) {
  (fields.find((each) => each.hasFault) ?? fields[0])?.focus();
}

function frame({ label, hint, isNeeded }, ...content) {
  const hinted = hint && element("p", { class: "hint", id: newId() }, visible(hint));
  const optional = isNeeded ? null : element("span", { class: "optional" }, " (optional)");
  return element(
    "fieldset",
    { class: "field nested", "aria-describedby": hinted ? hinted.id : null },
    element("legend", null, visible(label), optional),
    hinted,
    ...content,
  );
}

/** The members of an object. `members` are `{name, make(pointer)}`. */
export class ObjectFields {
  #members;

  constructor({ members, isOutermost, ...about }) {
    this.pointer = about.pointer;
    this.#members = members.map(({ name, make }) => ({
      name,
      field: make(`${about.pointer}/${pointerToken(name)}`),
    }));
    const fields = this.#fields.map((field) => field.element);
    const hint = isOutermost && about.hint && element("p", { class: "hint" }, visible(about.hint));
    this.element = isOutermost
      ? element("div", { class: "fields" }, hint || null, fields)
      : frame({ ...about, isNeeded: true }, element("div", { class: "fields" }, fields));
  }

  value(how) {
    const values = valuesOf(this.#fields, how);
    const members = this.#members.map(({ name }, at) => [name, values[at]]);
    return Object.fromEntries(members.filter(([, value]) => value !== LEFT_OUT));
  }

  complain(pointer, message) {
    return this.#fields.some((field) => field.complain(pointer, message));
  }

  focus() {
    focusFirst(this.#fields);
  }

  get hasFault() {
    return this.#fields.some((field) => field.hasFault);
  }

  get #fields() {
    return this.#members.map(({ field }) => field);
  }
}

/** The items of a list, of which some may be added and taken away. `item(pointer, label, initial)` makes one. */
export class ListFields {
  #item;
  #label;
  #least;
  #check;
  #absent;
  #items = [];
  #list = element("ol", { class: "items" });
  #add;
  #fault = element("p", { class: "fault", id: newId(), hidden: true });
  #told = element("p", { class: "aside", role: "status" });

  constructor({ initial, item, least, check, ...about }) {
    this.pointer = about.pointer;
    this.#item = item;
    this.#label = about.label;
    this.#least = least;
    this.#check = check;
    this.#absent = about.isNeeded || initial ? undefined : LEFT_OUT;
    this.#add = element("button", { type: "button", class: "small", click: () => this.#added() });
    this.#add.append(visible(`Add to ${about.label}`));
    this.element = frame(about, this.#list, this.#fault, this.#add, this.#told);
    for (const each of initial ?? []) this.#put(each);
    while (this.#items.length < least) this.#put(undefined);
  }

  value(how) {
    if (!this.#items.length && this.#absent) return this.#absent;
    const values = valuesOf(
      this.#items.map(({ field }) => field),
      how,
    );
    const fault = this.#check?.(values);
    if (!how?.isQuiet) say(this.#fault, fault ?? "");
    if (fault) throw new Misfit(fault);
    return values;
  }

  complain(pointer, message) {
    if (pointer === this.pointer) {
      say(this.#fault, visible(message));
      return true;
    }
    if (!pointer.startsWith(`${this.pointer}/`)) return false;
    const [at, ...rest] = pointer.slice(this.pointer.length + 1).split("/");
    const field = this.#items[Number(at)]?.field;
    return field?.complain([field.pointer, ...rest].join("/"), message) ?? false;
  }

  focus() {
    const fields = this.#items.map(({ field }) => field);
    if (fields.length) focusFirst(fields);
    else this.#add.focus();
  }

  get hasFault() {
    return !this.#fault.hidden || this.#items.some(({ field }) => field.hasFault);
  }

  #added() {
    const { field } = this.#put(undefined);
    this.#changed(`${this.#items.length} in the list`);
    field.focus();
  }

  #put(initial) {
    const field = this.#item(`${this.pointer}/${newId()}`, `${this.#label}, another`, initial);
    const remove = element("button", { type: "button", class: "small" }, "Remove");
    const entry = { field, remove, element: element("li", null, field.element, remove) };
    remove.addEventListener("click", () => this.#remove(entry));
    this.#items.push(entry);
    this.#list.append(entry.element);
    this.#name();
    return entry;
  }

  #remove(entry) {
    const at = this.#items.indexOf(entry);
    this.#items.splice(at, 1);
    entry.element.remove();
    this.#name();
    this.#changed(`Removed; ${this.#items.length} in the list`);
    (this.#items[at] ?? this.#items[at - 1])?.remove.focus();
    if (!this.#items.length) this.#add.focus();
  }

  /** Their names say which of the list they are. */
  #name() {
    this.#items.forEach(({ element: item, remove }, at) => {
      const name = item.querySelector("label, legend").firstChild;
      if (name.nodeType === Node.TEXT_NODE) name.data = visible(`${this.#label} ${at + 1}`);
      remove.setAttribute("aria-label", visible(`Remove ${this.#label} ${at + 1}`));
      remove.hidden = this.#items.length <= this.#least;
    });
  }

  #changed(words) {
    say(this.#fault, "");
    say(this.#told, words);
    this.element.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

/** What may be left out as a whole: a tick says whether it is there. `make(initial)` makes its fields. */
export class OptionalFields {
  #make;
  #fields;
  #tick;
  #room = element("div", { class: "fields" });
  #absent;

  constructor({ make, initial, isNullable, ...about }) {
    this.pointer = about.pointer;
    this.#make = make;
    this.#absent = isNullable ? null : LEFT_OUT;
    this.#tick = element("input", { type: "checkbox", checked: Boolean(initial) });
    this.#tick.addEventListener("change", () => this.#draw(undefined));
    const words = element("span", null, visible(`Give ${about.label}`));
    const choice = element("label", { class: "choice" }, this.#tick, words);
    this.element = element("div", { class: "optional-fields" }, choice, this.#room);
    this.#draw(initial);
  }

  value(how) {
    return this.#fields ? this.#fields.value(how) : this.#absent;
  }

  complain(pointer, message) {
    return this.#fields?.complain(pointer, message) ?? false;
  }

  focus() {
    (this.#fields ?? this.#tick).focus();
  }

  get hasFault() {
    return this.#fields?.hasFault ?? false;
  }

  #draw(initial) {
    this.#fields = this.#tick.checked ? this.#make(initial) : undefined;
    this.#room.replaceChildren(...(this.#fields ? [this.#fields.element] : []));
  }
}
