// The inbox: what is open, and the pause or the run that the address names; live, as long as the line stands.

import {
  decide,
  eventsOf,
  openPauses,
  pauseOf,
  Problem,
  runOf,
  session,
  signOut,
  Unreachable,
  workflows,
} from "./api.js";
import { element, say } from "./element.js";
import { Following } from "./events.js";
import { Filters } from "./filters.js";
import { refreshMoments } from "./moments.js";
import { addressOf, PauseList } from "./pause-list.js";
import { backLink, PauseView } from "./pause-view.js";
import { RunPage } from "./run-page.js";
import { nowHere, whoIsHere } from "./session.js";
import { Shortcuts } from "./shortcuts.js";
import { signInForm } from "./sign-in.js";
import { visible } from "./values.js";
import { GONE, refused, runAddress, runNow, tooLate } from "./words.js";

const LOOK_EVERY_MS = 15_000;
const RETRY_AFTER_MS = 2_000;
const LOOK_AT_LEAST_EVERY_MS = 30_000;
const SETTLES_MS = 150;
const SECOND_MS = 1_000;
const SAID_FOR_MS = 2_500;

const part = (selector) => document.querySelector(selector);
const room = part("#view");
const list = new PauseList(part("#list"), { onMore: lookFurther });
const view = new PauseView(room, { send, runOf: runOfPause });
const runPage = new RunPage(room, trouble);
const filters = new Filters(part("#filters"), { onChange: lookAnew });
const news = new Following({
  open: (lastId, signal) => eventsOf("pause.*", lastId, signal),
  onEvent: lookSoon,
  onLine: (error) => (error ? trouble(error) : lookSoon()),
});

let open = [];
let known; // the ids of what was open at the last look
let pages = 1;
let looks = 0;
let failures = 0;
let troubles = 0;
let areOffered = false;
let isSending = false;
let isSignedOut = false;
let timer;
let soon;

new Shortcuts(part("#shortcuts"), {
  j: () => step(1),
  k: () => step(-1),
  u: () => goTo(""),
  a: () => focusOn(".buttons .primary"),
  x: () => focusOn(".buttons .danger"),
  r: () => focusOn("[data-field=reason]"),
  e: edit,
  h: () => view.pause && goTo(runAddress(view.pause.thread_id, view.pause.run_id)),
  f: filter,
});
window.addEventListener("hashchange", () => follow().then(focusView));
window.addEventListener("online", wake);
window.addEventListener("offline", () => trouble(new Unreachable()));
document.addEventListener("visibilitychange", () => (document.hidden ? news.stop() : wake()));
part("#sign-out").addEventListener("click", leave);
part("#help").addEventListener("click", () => part("#shortcuts").showModal());
part(".skip").addEventListener("click", skip);
part("#filters details").addEventListener("toggle", offerFilters);
setInterval(() => refreshMoments(document), SECOND_MS);
look();

// ── Who is here ─────────────────────────────────────────────────────────────────────────────────

/** Takes whoever the service knows, and begins to show what is theirs. */
async function arrive(here) {
  nowHere(here);
  isSignedOut = false;
  document.body.classList.remove("is-signed-out");
  part("#who").textContent = here.is_open ? "" : visible(here.name);
  part("#sign-out").hidden = here.is_open;
  filters.isOpen = here.is_open;
  if (!document.hidden) news.start();
  offerFilters();
  await follow();
}

/** Nothing is shown to somebody who is not known. */
function askWhoItIs(reason) {
  if (isSignedOut) return;
  isSignedOut = true;
  nowHere(undefined);
  news.stop();
  runPage.leave();
  open = [];
  known = undefined;
  list.show({ pauses: [], hasMore: false });
  say(part("#count"), "");
  part("#who").textContent = "";
  part("#sign-out").hidden = true;
  document.body.classList.add("is-signed-out");
  view.showInstead(signInForm((here) => arrive(here).then(look).then(focusView), reason));
  room.querySelector("h2").focus();
}

async function leave() {
  await reach(async () => {
    await signOut();
    askWhoItIs("You are signed out.");
  });
}

// ── The line to the service ─────────────────────────────────────────────────────────────────────

/**
 * Does something with the service, and says so while it cannot be reached. What was under way when the line was
 * lost says nothing of the line now.
 */
async function reach(work) {
  const before = troubles;
  try {
    await work();
    if (troubles === before) connected();
    return true;
  } catch (error) {
    trouble(error);
    return false;
  }
}

function trouble(error) {
  troubles += 1;
  if (error instanceof Problem && error.status === 401) {
    askWhoItIs(whoIsHere() ? "You are not signed in any more." : "");
    return;
  }
  if (!(error instanceof Unreachable || error instanceof Problem)) throw error;
  const banner = part("#connection");
  banner.classList.remove("is-good");
  say(banner, error instanceof Problem ? error.message : AWAY());
}

const AWAY = () =>
  navigator.onLine
    ? "The service cannot be reached. Trying again …"
    : "You are offline. The service cannot be reached; what you see may be out of date.";

/** Says for a moment that it is well again, if it was not. */
function connected() {
  const banner = part("#connection");
  if (banner.hidden || banner.classList.contains("is-good")) return;
  banner.classList.add("is-good");
  say(banner, "Connected again.");
  setTimeout(() => banner.classList.contains("is-good") && say(banner, ""), SAID_FOR_MS);
}

/** The page is seen again, or the network is back. */
function wake() {
  if (document.hidden || isSignedOut) return;
  if (whoIsHere()) news.retry();
  look();
}

// ── What is open ────────────────────────────────────────────────────────────────────────────────

/** Looks at what is open, and again after a while. Of looks that overlap, the last one counts. */
async function look() {
  clearTimeout(timer);
  clearTimeout(soon);
  soon = undefined;
  looks += 1;
  const current = looks;
  const isReached = await reach(async () => {
    if (!whoIsHere()) await arrive(await session());
    const found = await openPauses(pages, filters.query, filters.wants);
    if (current !== looks || isSignedOut) return;
    show(found);
    await keepUp();
  });
  failures = isReached ? 0 : failures + 1;
  if (current === looks && !isSignedOut) timer = setTimeout(look, pauseBetweenLooks());
}

/** Something happened: what comes with it is looked at together. */
function lookSoon() {
  soon ??= setTimeout(look, SETTLES_MS);
}

function lookFurther() {
  pages += 1;
  look();
}

/** Something else is looked for. */
function lookAnew() {
  pages = 1;
  known = undefined;
  look();
}

/** Mostly the events tell; this is for when they do not, or for a page that nobody sees. */
function pauseBetweenLooks() {
  if (!failures) return document.hidden ? LOOK_AT_LEAST_EVERY_MS : LOOK_EVERY_MS;
  return Math.min(RETRY_AFTER_MS * 2 ** (failures - 1), LOOK_AT_LEAST_EVERY_MS);
}

function show({ pauses, hasMore }) {
  open = pauses;
  list.show({ pauses, hasMore, isFiltered: filters.isInUse });
  list.select(route().pause);
  const number = `${pauses.length}${hasMore ? "+" : ""}`;
  say(part("#count"), pauses.length ? `${number} waiting` : "");
  document.title = pauses.length ? `(${number}) Inbox · Signoff` : "Inbox · Signoff";
  tellNews(pauses);
  refreshMoments(document);
}

/** Says what has come since the last look, to those who do not see the list grow. */
function tellNews(pauses) {
  const come = known ? pauses.filter(({ id }) => !known.has(id)) : [];
  known = new Set(pauses.map(({ id }) => id));
  if (come.length === 1) say(part("#news"), `New: ${visible(come[0].message)}`);
  if (come.length > 1) say(part("#news"), `${come.length} new pauses`);
}

/** Reads what there is to filter by, once somebody wants to. */
async function offerFilters() {
  if (areOffered || !whoIsHere() || !part("#filters details").open) return;
  areOffered = true;
  await reach(async () => {
    const described = await workflows();
    const channels = new Set(described.flatMap((each) => each.channels.map(({ name }) => name)));
    filters.offer({
      workflow: described.map(({ name }) => [name, name]),
      channel: [...channels].sort().map((name) => [name, name]),
    });
  });
}

// ── What the address names ──────────────────────────────────────────────────────────────────────

/** `{pause}` or `{run: [thread, run]}`, or neither if the list alone is looked at. */
function route() {
  try {
    const [first, ...others] = location.hash.slice(1).split("/").map(decodeURIComponent);
    return first === "run" && others.length === 2 ? { run: others } : { pause: first };
  } catch {
    return {};
  }
}

function goTo(address) {
  location.hash = address;
}

/** Shows what the address names. */
async function follow() {
  if (isSignedOut || !whoIsHere()) return;
  const { pause, run } = route();
  list.select(pause);
  document.body.classList.toggle("is-selected", Boolean(pause || run));
  room.setAttribute("aria-label", run ? "Run" : "Pause");
  runPage.leave();
  if (run) {
    view.leave();
    await runPage.show(...run);
  } else if (pause) await reach(() => showPause(pause));
  else view.showInstead(remark("Choose a pause to see what it asks."));
}

function focusView() {
  const { pause, run } = route();
  if (isSignedOut) return;
  if (pause || run) (room.querySelector("h2") ?? room).focus({ preventScroll: true });
  else list.focus();
  window.scrollTo(0, 0);
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
  const id = route().pause;
  if (!id || isSending) return;
  const isClosed = view.pause?.id === id && view.pause.status !== "open";
  if (!isClosed) await showPause(id);
}

/** What comes beside a pause may be missing. */
async function runOfPause(pause) {
  try {
    return await runOf(pause.thread_id, pause.run_id);
  } catch {
    return undefined;
  }
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

/** Where the pause was closed before, or asks about something else, this is shown, with the decision that counts. */
async function explain(pause, error) {
  const isOther = error.code === "digest_mismatch";
  const reason = isOther ? refused(error) : tooLate(error);
  if (!reason) throw error;
  showIfSelected(await pauseOf(pause.id), [reason]);
}

/** Whoever went on to another pause while a decision was under way stays there. */
function showIfSelected(pause, remarks) {
  if (route().pause === pause.id) view.show(pause, remarks);
}

/** The way to what may be decided next: a further question of the run, else the longest waiting. */
function next(run) {
  const following = run.pause ?? open.find((each) => each.run_id !== run.id);
  if (!following) return [];
  const link = element("a", { href: addressOf(following.id) }, visible(following.message));
  return [element("span", null, "Next: ", link)];
}

// ── Keys ────────────────────────────────────────────────────────────────────────────────────────

/** To the pause that stands so many further in the list. */
function step(by) {
  const at = open.findIndex(({ id }) => id === route().pause);
  const to = open[at < 0 ? (by > 0 ? 0 : open.length - 1) : at + by];
  if (to) goTo(addressOf(to.id));
}

function focusOn(selector) {
  room.querySelector(selector)?.focus();
}

function edit() {
  const changes = room.querySelector(".changes");
  if (changes) changes.open = true;
  (changes ?? room.querySelector("form"))?.querySelector("input, textarea, select")?.focus();
}

function filter() {
  part("#filters details").open = true;
  part("#filters select").focus();
}

function skip(event) {
  event.preventDefault();
  focusView();
}
