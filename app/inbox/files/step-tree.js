// The steps of a run as a tree, by their paths: what happened at each, and what was asked there.

import { between, lasting } from "./moments.js";

/**
 * The outermost nodes, each `{name, status, details, output, pauses, children}`. A step's path writes out the steps
 * around it, as in `publishing/polish[1]/edit`.
 */
export function stepTree(run, events) {
  const heard = heardAt(events);
  const nodes = new Map();
  for (const step of run.steps) {
    const node = nodeAt(nodes, step.path);
    node.status = step.status;
    node.output = step.output;
    node.details = detailsOf(step, heard.get(step.path));
  }
  for (const pause of run.pauses) {
    const node = nodeAt(nodes, pause.step.path);
    node.pauses.push(pause);
    if (pause.status === "open") node.status = "paused";
  }
  return rooted(nodes);
}

function nodeAt(nodes, path) {
  if (!nodes.has(path)) {
    const name = path.slice(path.lastIndexOf("/") + 1);
    nodes.set(path, { path, name, status: "", details: [], pauses: [], children: [] });
  }
  return nodes.get(path);
}

/** Hangs every node under the nearest one whose path its own begins with. */
function rooted(nodes) {
  const roots = [];
  for (const node of nodes.values()) {
    const above = nearest(nodes, node.path);
    (above?.children ?? roots).push(node);
  }
  return roots;
}

function nearest(nodes, path) {
  for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
    const found = nodes.get(path.slice(0, end));
    if (found) return found;
  }
  return undefined;
}

function detailsOf({ type, attempts, cost }, heard) {
  return [
    type,
    attempts > 1 && `${attempts} attempts`,
    heard?.ended && `took ${lasting(between(heard.started, heard.ended))}`,
    Number(cost) > 0 && `$${cost}`,
    heard?.turns && counted(heard.turns, "answer", "answers"),
    ...Object.entries(heard?.tools ?? {}).map(([tool, times]) => `${tool} × ${times}`),
  ];
}

function counted(number, one, several) {
  return `${number} ${number === 1 ? one : several} of the model`;
}

/** What a run's events say of each path. */
function heardAt(events) {
  const heard = new Map();
  for (const { type, timestamp, data } of events) {
    if (!data.path) continue;
    if (!heard.has(data.path)) heard.set(data.path, { turns: 0, tools: {} });
    const at = heard.get(data.path);
    if (type === "step.started") at.started ??= timestamp;
    if (/^step\.(completed|failed|skipped)$/.test(type) && at.started) at.ended = timestamp;
    if (type === "model.answered") at.turns += 1;
    if (type === "tool.finished") at.tools[data.tool] = (at.tools[data.tool] ?? 0) + 1;
  }
  return heard;
}
