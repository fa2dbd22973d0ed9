// The service's API, as far as the inbox needs it; the one module that sends requests.

import { readJson, writeJson } from "./json.js";
import { givenKey } from "./key.js";

const ANSWERED_WITHIN_MS = 20_000;
const PAGE_SIZE = 50;
const WAIT_SECONDS = 2;

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

/** The longest waiting open pauses, as many pages of them as wanted, and whether there are more. */
export async function openPauses(pages) {
  const pauses = [];
  let cursor = null;
  for (let page = 0; page < pages; page += 1) {
    const query = new URLSearchParams({ status: "open", limit: PAGE_SIZE });
    if (cursor) query.set("cursor", cursor);
    const { items, next } = await request(`pauses?${query}`);
    pauses.push(...items);
    cursor = next;
    if (!cursor) break;
  }
  return { pauses, hasMore: cursor !== null };
}

/** One pause, open or not. */
export function pauseOf(id) {
  return request(`pauses/${encodeURIComponent(id)}`);
}

/**
 * Decides a pause as it was shown, and gives its run. The same `key` may be sent again: a decision
 * that was taken is not taken twice.
 */
export function decide(pause, decision, key) {
  const headers = { "Idempotency-Key": key, Prefer: `wait=${WAIT_SECONDS}` };
  if (pause.digest) headers["If-Match"] = `"${pause.digest}"`;
  const thread = encodeURIComponent(pause.thread_id);
  return request(`threads/${thread}/resume`, headers, { pause_id: pause.id, decision });
}

/** The answer's JSON. Paths are relative to the page, so that it works behind any prefix. */
async function request(path, headers = {}, body) {
  const response = await reach(path, {
    ...(body !== undefined && { method: "POST", body: writeJson(body) }),
    headers: {
      ...headers,
      ...(givenKey() && { Authorization: `Bearer ${givenKey()}` }),
      ...(body !== undefined && { "Content-Type": "application/json" }),
    },
    cache: "no-store",
    redirect: "error",
  });
  if (response.ok) return response.json;
  if (isAway(response)) throw new Unreachable();
  throw new Problem(response.status, response.json ?? {});
}

async function reach(path, options) {
  const signal = AbortSignal.timeout(ANSWERED_WITHIN_MS);
  try {
    const response = await fetch(path, { ...options, signal });
    const text = await response.text();
    return { ok: response.ok, status: response.status, json: jsonIn(response, text) };
  } catch {
    throw new Unreachable();
  }
}

function jsonIn(response, text) {
  const type = response.headers.get("Content-Type") ?? "";
  return /^application\/(problem\+)?json/.test(type) ? readJson(text) : undefined;
}

/** Something in front of the service answers in its place, or its database is away. */
function isAway({ status }) {
  return status === 502 || status === 503 || status === 504;
}
