// What differs between two values: member by member, and within texts word by word.

import { isObject, pointerToken, writeJson } from "./json.js";

const MOST_STEPS = 4_000_000;
const WORD = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;

/** The members that differ, as `{pointer, before, after}`; undefined stands for what is not there. */
export function changesBetween(before, after, pointer = "") {
  if (writeJson(before) === writeJson(after)) return [];
  const names = namesOf(before, after);
  if (!names) return [{ pointer, before, after }];
  return names.flatMap((name) =>
    changesBetween(before[name], after[name], `${pointer}/${pointerToken(name)}`),
  );
}

/** What the members of two values of one kind are called; undefined if they are no such two. */
function namesOf(before, after) {
  if (Array.isArray(before) && Array.isArray(after)) {
    return Array.from({ length: Math.max(before.length, after.length) }, (_, at) => at);
  }
  const areObjects = isObject(before) && isObject(after);
  return areObjects ? [...new Set([...Object.keys(before), ...Object.keys(after)])] : undefined;
}

/** Two texts as pieces `{is: "same" | "gone" | "new", text}`, in the order in which they are read. */
export function wordsBetween(before, after) {
  const [old, young] = [before.match(WORD) ?? [], after.match(WORD) ?? []];
  let start = 0;
  while (start < old.length && start < young.length && old[start] === young[start]) start += 1;
  let end = 0;
  const most = Math.min(old.length, young.length) - start;
  while (end < most && old.at(-1 - end) === young.at(-1 - end)) end += 1;
  return joined([
    ...old.slice(0, start).map((text) => ({ is: "same", text })),
    ...middle(old.slice(start, old.length - end), young.slice(start, young.length - end)),
    ...old.slice(old.length - end).map((text) => ({ is: "same", text })),
  ]);
}

/** By a longest common subsequence, unless that would take too long. */
function middle(old, young) {
  if (old.length * young.length > MOST_STEPS) {
    return [
      { is: "gone", text: old.join("") },
      { is: "new", text: young.join("") },
    ];
  }
  return walked(old, young, commonLengths(old, young));
}

/** How long the longest common subsequence of what follows is, for every pair of places. */
function commonLengths(old, young) {
  const width = young.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = young.length - 1; j >= 0; j -= 1) {
      const [down, right] = [lengths[(i + 1) * width + j], lengths[i * width + j + 1]];
      const both = lengths[(i + 1) * width + j + 1] + 1;
      lengths[i * width + j] = old[i] === young[j] ? both : Math.max(down, right);
    }
  }
  return { at: (i, j) => lengths[i * width + j] };
}

function walked(old, young, lengths) {
  const pieces = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < young.length) {
    if (i < old.length && j < young.length && old[i] === young[j]) {
      pieces.push({ is: "same", text: old[i] });
      [i, j] = [i + 1, j + 1];
    } else if (j === young.length || (i < old.length && lengths.at(i + 1, j) >= lengths.at(i, j + 1))) {
      pieces.push({ is: "gone", text: old[i] });
      i += 1;
    } else {
      pieces.push({ is: "new", text: young[j] });
      j += 1;
    }
  }
  return pieces;
}

/** Neighbours of one kind as one piece; what is gone stands before what is new in its place. */
function joined(pieces) {
  const runs = [];
  let change = { gone: "", new: "" };
  const settle = () => {
    if (change.gone) runs.push({ is: "gone", text: change.gone });
    if (change.new) runs.push({ is: "new", text: change.new });
    change = { gone: "", new: "" };
  };
  for (const { is, text } of pieces) {
    if (is !== "same") change[is] += text;
    else if (runs.at(-1)?.is === "same" && !change.gone && !change.new) runs.at(-1).text += text;
    else {
      settle();
      runs.push({ is: "same", text });
    }
  }
  settle();
  return runs;
}
