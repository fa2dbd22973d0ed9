// Single keys that move through the inbox. They move and never decide: what decides is a button that has the focus.

const KEY = "signoff.shortcuts";

/** Listens for keys, and shows the list of them in a dialog; `actions` are functions by key. */
export class Shortcuts {
  #dialog;
  #tick;
  #actions;

  constructor(dialog, actions) {
    this.#dialog = dialog;
    this.#actions = { ...actions, "?": () => this.show() };
    this.#tick = dialog.querySelector("input");
    this.#tick.checked = remembered();
    this.#tick.addEventListener("change", () => remember(this.#tick.checked));
    dialog.querySelector("button").addEventListener("click", () => dialog.close());
    document.addEventListener("keydown", (event) => this.#press(event));
  }

  show() {
    if (!this.#dialog.open) this.#dialog.showModal();
  }

  #press(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.#dialog.open) return;
    if (event.key === "Escape") return leave(event.target);
    if (!this.#tick.checked || isWriting(event.target)) return;
    const action = this.#actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

/** Out of a field, so that single keys mean something again. */
function leave(target) {
  if (isWriting(target)) target.blur();
}

function isWriting(target) {
  return target.matches?.("textarea, select, input:not([type=radio], [type=checkbox])");
}

function remembered() {
  try {
    return localStorage.getItem(KEY) !== "off";
  } catch {
    return true; // a browser that keeps nothing
  }
}

function remember(isOn) {
  try {
    localStorage.setItem(KEY, isOn ? "on" : "off");
  } catch {
    // It is as it is until the page is loaded again.
  }
}
