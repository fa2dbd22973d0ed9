// Times as people say them, kept right while the page is open: "3 minutes ago", "in 2 days".

import { element } from "./element.js";

const MINUTE = 60_000;
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

/** A deadline; marked when it is near. */
export function deadline(timestamp) {
  return moment(timestamp, "deadline");
}

/** Brings the moments in an element up to date. */
export function refreshMoments(root) {
  for (const each of root.querySelectorAll("time[data-is]")) refresh(each);
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
  const text = isDeadline ? fromNow(left) : fromNow(Math.min(left, 0));
  if (time.textContent !== text) time.textContent = text;
  time.classList.toggle("soon", isDeadline && left < HOUR);
}

/** In the largest unit of which there are two at least, but for a single minute. */
function fromNow(left) {
  for (const [unit, size, least] of UNITS) {
    if (Math.abs(left) >= least) return relative.format(Math.round(left / size), unit);
  }
  return left > 0 ? "in less than a minute" : "just now";
}
