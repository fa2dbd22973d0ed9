// Times as people say them, kept right while the page is open: "3 minutes ago", "in 2 days", "in 4:59".

import { element } from "./element.js";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS = [
  ["day", DAY, 2 * DAY],
  ["hour", HOUR, 2 * HOUR],
  ["minute", MINUTE, MINUTE],
];

const relative = new Intl.RelativeTimeFormat("en");
const exact = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });

/** A moment that has passed. */
export function past(timestamp) {
  return moment(timestamp, "past");
}

/** A deadline; marked when it is near, and counted down in its last hour. */
export function deadline(timestamp) {
  return moment(timestamp, "deadline");
}

/** Brings the moments in an element up to date. */
export function refreshMoments(root) {
  for (const each of root.querySelectorAll("time[data-is]")) refresh(each);
}

/** How long something took: "850 ms", "12 s", "4 min 10 s", "3 h 5 min", "2 d 4 h". */
export function lasting(milliseconds) {
  if (milliseconds < SECOND) return `${Math.max(0, Math.round(milliseconds))} ms`;
  const parts = [
    [Math.floor(milliseconds / DAY), "d"],
    [Math.floor((milliseconds % DAY) / HOUR), "h"],
    [Math.floor((milliseconds % HOUR) / MINUTE), "min"],
    [Math.floor((milliseconds % MINUTE) / SECOND), "s"],
  ];
  const first = parts.findIndex(([number]) => number > 0);
  const told = parts.slice(first, first + 2).filter(([number]) => number > 0);
  return told.map(([number, unit]) => `${number} ${unit}`).join(" ");
}

/** Milliseconds from one moment to another; to now where that is not yet known. */
export function between(from, to) {
  return (to ? new Date(to).getTime() : Date.now()) - new Date(from).getTime();
}

function moment(timestamp, is) {
  const title = exact.format(new Date(timestamp));
  const made = element("time", { datetime: timestamp, title, "data-is": is });
  refresh(made);
  return made;
}

function refresh(time) {
  const left = new Date(time.dateTime).getTime() - Date.now();
  const isDeadline = time.dataset.is === "deadline";
  const text = isDeadline ? untilThen(left) : fromNow(Math.min(left, 0));
  if (time.textContent !== text) time.textContent = text;
  time.classList.toggle("soon", isDeadline && left < HOUR);
}

function untilThen(left) {
  if (left <= 0) return "now";
  if (left >= HOUR) return fromNow(left);
  const seconds = Math.floor((left % MINUTE) / SECOND);
  return `in ${Math.floor(left / MINUTE)}:${String(seconds).padStart(2, "0")}`;
}

/** In the largest unit of which there are two at least, but for a single minute. */
function fromNow(left) {
  for (const [unit, size, least] of UNITS) {
    if (Math.abs(left) >= least) return relative.format(Math.round(left / size), unit);
  }
  return left > 0 ? "in less than a minute" : "just now";
}
