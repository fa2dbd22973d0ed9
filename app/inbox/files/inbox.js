// The inbox: looks every few seconds at what is open, and shows the pause that the address names.

import { decide, openPauses, pauseOf, Problem, Unreachable } from "./api.js";
import { element, say } from "./element.js";
import { giveKey } from "./key.js";
import { refreshMoments } from "./moments.js";
import { addressOf, PauseList } from "./pause-list.js";
import { backLink, PauseView } from "./pause-view.js";
import { visible } from "./values.js";
import { GONE, runNow, tooLate } from "./words.js";

const LOOK_EVERY_MS = 3_000;
const LOOK_AT_LEAST_EVERY_MS = 30_000;

const count = document.querySelector("#count");
const connection = document.querySelector("#connection");
const signIn = document.querySelector("#sign-in");
const list = new PauseList(document.querySelector("#list"), { onMore: lookFurther });
const view = new PauseView(document.querySelector("#view"), send);

let open = [];
let pages = 1;
let looks = 0;
let failures = 0;
let isSending = false;
let timer;

window.addEventListener("hashchange", () => follow().then(() => view.focus()));
window.addEventListener("online", look);
document.addEventListener("visibilitychange", () => document.hidden || look());
signIn.addEventListener("submit", useKey);
follow();
look();

// ── What is open ────────────────────────────────────────────────────────────────────────────────

/** Looks at what is open, and again after a while. Of looks that overlap, the last one counts. */
async function look() {
  clearTimeout(timer);
  looks += 1;
  const current = looks;
  const isReached = await reach(async () => {
    const found = await openPauses(pages);
    if (current !== looks) return;
    show(found);
    await keepUp();
  });
  failures = isReached ? 0 : failures + 1;
  if (current === looks) timer = setTimeout(lookIfSeen, pauseBetweenLooks());
}

function lookFurther() {
  pages += 1;
  look();
}

/** A page that nobody sees asks nothing; it looks when it is seen again. */
function lookIfSeen() {
  if (!document.hidden) look();
}

function pauseBetweenLooks() {
  return Math.min(LOOK_EVERY_MS * 2 ** failures, LOOK_AT_LEAST_EVERY_MS);
}

/** Does something with the service, and says so while it cannot be reached. */
async function reach(work) {
  try {
    await work();
    say(connection, "");
    signIn.hidden = true;
    return true;
  } catch (error) {
    say(connection, troubleOf(error));
    if (error.status === 401) signIn.hidden = false;
    return false;
  }
}

/** Takes the key that was typed in, and looks again with it. */
function useKey(event) {
  event.preventDefault();
  giveKey(signIn.elements.key.value.trim());
  signIn.reset();
  look();
}

function troubleOf(error) {
  if (error instanceof Unreachable) return "The service cannot be reached. Trying again …";
  if (error instanceof Problem) return error.message;
  throw error;
}

function show({ pauses, hasMore }) {
  open = pauses;
  list.show({ pauses, hasMore });
  list.select(selected());
  const number = `${pauses.length}${hasMore ? "+" : ""}`;
  say(count, pauses.length ? `${number} waiting` : "");
  document.title = pauses.length ? `(${number}) Inbox · Signoff` : "Inbox · Signoff";
  refreshMoments(document);
}

// ── The pause that is looked at ─────────────────────────────────────────────────────────────────

/** The id in the address; nothing if the list alone is looked at. */
function selected() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

/** Shows what the address names. */
async function follow() {
  const id = selected();
  list.select(id);
  document.body.classList.toggle("is-selected", Boolean(id));
  if (id) await reach(() => showPause(id));
  else view.showInstead(remark("Choose a pause to see what it asks."));
}

async function showPause(id) {
  try {
    const pause = open.find((each) => each.id === id) ?? (await pauseOf(id));
    showIfSelected(pause);
  } catch (error) {
    if (error.code !== "not_found") throw error;
    view.showInstead(backLink(), remark(GONE));
  }
}

function remark(words) {
  return element("p", { class: "nothing" }, words);
}

/** Brings the pause that is shown up to date. A closed one stays as it is. */
async function keepUp() {
  const id = selected();
  const isClosed = view.pause?.id === id && view.pause.status !== "open";
  if (id && !isClosed && !isSending) await showPause(id);
}

// ── Deciding ────────────────────────────────────────────────────────────────────────────────────

/** Decides, and shows what came of it; throws what the form has to explain. */
async function send(pause, decision, key) {
  isSending = true;
  try {
    const run = await decide(pause, decision, key);
    showTaken(pause, run);
  } catch (error) {
    await explain(pause, error);
  } finally {
    isSending = false;
    look();
  }
}

function showTaken(pause, run) {
  const now = run.pauses.find((each) => each.id === pause.id);
  const isSettled = now.status !== "open"; // a vote may leave it open
  showIfSelected(now, isSettled ? ["Your decision is taken.", runNow(run), ...next(run)] : []);
}

/** Where the pause was closed before, this is shown, with the decision that counts. */
async function explain(pause, error) {
  const reason = tooLate(error);
  if (!reason) throw error;
  showIfSelected(await pauseOf(pause.id), [reason]);
}

/** Whoever went on to another pause while a decision was under way stays there. */
function showIfSelected(pause, remarks) {
  if (selected() === pause.id) view.show(pause, remarks);
}

/** The way to what may be decided next: a further question of the run, else the longest waiting. */
function next(run) {
  const following = run.pause ?? open.find((each) => each.run_id !== run.id);
  if (!following) return [];
  const link = element("a", { href: addressOf(following.id) }, visible(following.message));
  return [element("span", null, "Next: ", link)];
}
