// The service's API, as far as the inbox needs it; the one module that sends requests.

import { readJson, writeJson } from "./json.js";

const ANSWERED_WITHIN_MS = 20_000;
const PAGE_SIZE = 50;
const MOST_PAGES = 20;
const WAIT_SECONDS = 2;

/** Without it the service takes no cookie: a page of another site cannot send it. */
const OWN = { "X-Signoff-Inbox": "1" };

/** What the service says where it does not do what was asked: a problem of RFC 9457. */
export class Problem extends Error {
  constructor(status, { code, detail, errors }) {
    super(detail ?? `The service answered with status ${status}.`);
    this.status = status;
    this.code = code ?? "";
    this.errors = errors ?? [];
  }
}

/** The service did not answer; whether it has done what was asked is not known. */
export class Unreachable extends Error {}

/** Who the service takes this browser for. */
export function session() {
  return request("session");
}

/** Signs in with a key or a token, and gives who that is. */
export function signIn(credential) {
  return request("session", { body: { credential } });
}

export function signOut() {
  return request("session", { method: "DELETE" });
}

/**
 * The longest waiting open pauses that have all of `filters`, and whether there are more: as many pages as wanted,
 * and further ones until there is a page's worth of those that are `wanted`.
 */
export async function openPauses(pages, filters, wanted) {
  const pauses = [];
  let cursor = null;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const query = new URLSearchParams({ status: "open", limit: PAGE_SIZE, ...filters });
    if (cursor) query.set("cursor", cursor);
    const { items, next } = await request(`pauses?${query}`);
    pauses.push(...items.filter(wanted));
    cursor = next;
    if (!cursor || pauses.length >= pages * PAGE_SIZE) break;
  }
  return { pauses, hasMore: cursor !== null };
}

/** One pause, open or not. */
export function pauseOf(id) {
  return request(`pauses/${encodeURIComponent(id)}`);
}

/** One run, with all its pauses. */
export function runOf(threadId, runId) {
  return request(placeOf(threadId, runId));
}

/** The workflows that are served, each with its channels. */
export async function workflows() {
  const { items } = await request("workflows");
  const names = [...new Set(items.map(({ name }) => name))];
  return Promise.all(names.map((name) => request(`workflows/${encodeURIComponent(name)}`)));
}

/**
 * Decides a pause as it was shown, and gives its run. The same `key` may be sent again: a decision
 * that was taken is not taken twice.
 */
export function decide(pause, decision, key) {
  const headers = { "Idempotency-Key": key, Prefer: `wait=${WAIT_SECONDS}` };
  if (pause.digest) headers["If-Match"] = `"${pause.digest}"`;
  const thread = encodeURIComponent(pause.thread_id);
  return request(`threads/${thread}/resume`, { headers, body: { pause_id: pause.id, decision } });
}

/** The body of the stream of all events, after the last one that is known; null if there is no more. */
export function eventsOf(types, lastId, signal) {
  return streamed(`events?${new URLSearchParams({ types })}`, lastId, signal);
}

/** The body of the stream of a run's events, in the same way. */
export function eventsOfRun(threadId, runId, lastId, signal) {
  return streamed(`${placeOf(threadId, runId)}/events`, lastId, signal);
}

function placeOf(threadId, runId) {
  return `threads/${encodeURIComponent(threadId)}/runs/${encodeURIComponent(runId)}`;
}

async function streamed(path, lastId, signal) {
  const headers = { ...OWN, ...(lastId && { "Last-Event-ID": lastId }) };
  let response;
  try {
    response = await fetch(path, { headers, signal, cache: "no-store", redirect: "error" });
  } catch {
    throw new Unreachable();
  }
  if (response.ok) return response.body;
  throw troubleIn(await whole(response));
}

/** The answer's JSON. Paths are relative to the page, so that it works behind any prefix. */
async function request(path, { method, headers, body } = {}) {
  const hasBody = body !== undefined;
  const response = await reach(path, {
    method: method ?? (hasBody ? "POST" : "GET"),
    ...(hasBody && { body: writeJson(body) }),
    headers: { ...OWN, ...headers, ...(hasBody && { "Content-Type": "application/json" }) },
    cache: "no-store",
    redirect: "error",
  });
  if (response.ok) return response.json;
  throw troubleIn(response);
}

async function reach(path, options) {
  const signal = AbortSignal.timeout(ANSWERED_WITHIN_MS);
  try {
    return await whole(await fetch(path, { ...options, signal }));
  } catch {
    throw new Unreachable();
  }
}

async function whole(response) {
  const text = await response.text();
  return { ok: response.ok, status: response.status, json: jsonIn(response, text) };
}

function troubleIn(response) {
  return isAway(response) ? new Unreachable() : new Problem(response.status, response.json ?? {});
}

function jsonIn(response, text) {
  const type = response.headers.get("Content-Type") ?? "";
  return /^application\/(problem\+)?json/.test(type) ? readJson(text) : undefined;
}

/** Something in front of the service answers in its place, or its database is away. */
function isAway({ status }) {
  return status === 502 || status === 503 || status === 504;
}
