// The page of one run, kept up to date by the run's own events.

import { eventsOfRun, runOf } from "./api.js";
import { element } from "./element.js";
import { Following } from "./events.js";
import { writeJson } from "./json.js";
import { backLink } from "./pause-view.js";
import { runElement } from "./run-view.js";

const SETTLES_MS = 200;
const GONE = "This run is not there any more, or never was.";

/** Fills an element with a run. `onTrouble(error)` is told why it cannot be had, unless it is not there. */
export class RunPage {
  #root;
  #onTrouble;
  #place;
  #run;
  #events = [];
  #following;
  #timer;

  constructor(root, onTrouble) {
    this.#root = root;
    this.#onTrouble = onTrouble;
  }

  /** Shows a run, and goes on showing what becomes of it until `leave()`. */
  async show(threadId, runId) {
    this.leave();
    const place = [threadId, runId];
    this.#place = place;
    this.#root.replaceChildren(backLink());
    await this.#look(place);
    if (this.#place !== place) return;
    this.#following = new Following({
      open: (lastId, signal) => eventsOfRun(threadId, runId, lastId, signal),
      onEvent: (event) => this.#heard(event, place),
    });
    this.#following.start();
  }

  leave() {
    clearTimeout(this.#timer);
    this.#following?.stop();
    this.#place = this.#run = this.#following = undefined;
    this.#events = [];
  }

  #heard(event, place) {
    if (this.#place !== place) return;
    this.#events.push(event);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(place), SETTLES_MS);
  }

  async #look(place) {
    try {
      const run = await runOf(...place);
      if (this.#place === place) this.#draw(run);
    } catch (error) {
      if (this.#place !== place) return;
      if (error.code !== "not_found") this.#onTrouble(error);
      else this.#root.replaceChildren(backLink(), element("p", { class: "nothing" }, GONE));
    }
  }

  /** What was opened stays open, and what has the focus keeps it. */
  #draw(run) {
    const seen = writeJson([run, this.#events.length]);
    if (seen === this.#run) return;
    this.#run = seen;
    const [opened, focused] = [this.#paths("[open]"), this.#focusedPath()];
    const hadFocus = this.#root.contains(document.activeElement);
    this.#root.replaceChildren(backLink(), runElement(run, this.#events));
    for (const each of this.#root.querySelectorAll("details[data-path]")) {
      each.open = opened.has(each.dataset.path);
      if (each.dataset.path === focused) each.firstElementChild.focus();
    }
    if (hadFocus && !focused) this.#root.querySelector("h2").focus({ preventScroll: true });
  }

  #paths(which) {
    const found = [...this.#root.querySelectorAll(`details[data-path]${which}`)];
    return new Set(found.map((each) => each.dataset.path));
  }

  #focusedPath() {
    return document.activeElement?.closest("details[data-path]")?.dataset.path;
  }
}
