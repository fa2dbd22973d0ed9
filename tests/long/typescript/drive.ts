// A caller and an approver in TypeScript: drives a run to its pause and to its end, by generated types alone.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Run = components["schemas"]["Run"];
type Pause = components["schemas"]["Pause"];
type Event = components["schemas"]["Event"];

const client = createClient<paths>({ baseUrl: process.argv[2] ?? "" });
const waiting = { prefer: "wait=30" };

async function start(): Promise<Run> {
  const { data, error } = await client.POST("/threads/{thread_id}/runs", {
    params: { path: { thread_id: "typed" }, header: waiting },
    body: { workflow: "errands", input: { text: "late" }, if_not_exists: "create" },
  });
  if (error) throw new Error(error.code);
  return data;
}

async function approve(pause: Pause, overrides: Record<string, unknown>): Promise<Run> {
  const { data, error } = await client.POST("/threads/{thread_id}/resume", {
    params: {
      path: { thread_id: pause.thread_id },
      header: { ...waiting, "If-Match": `"${pause.digest}"` },
    },
    body: {
      pause_id: pause.id,
      decision: { approved: true, by: "ada", override_arguments: overrides },
    },
  });
  if (error) throw new Error(error.code);
  return data;
}

async function codeOfUnknownPause(): Promise<string | undefined> {
  const { error } = await client.GET("/pauses/{pause_id}", {
    params: { path: { pause_id: "pau_1" } },
  });
  return error?.code;
}

// Compiles only if every event is told apart by its type.
function said(event: Event): string {
  switch (event.type) {
    case "pause.opened":
    case "pause.reminder":
    case "pause.escalated":
    case "pause.decided":
    case "pause.expired":
    case "pause.cancelled":
      return `${event.type} ${event.data.pause_id}`;
    case "tool.started":
    case "tool.finished":
      return `${event.type} ${event.data.tool}`;
    case "step.started":
    case "step.completed":
    case "step.failed":
    case "step.skipped":
      return `${event.type} ${event.data.name}`;
    case "model.answered":
      return `${event.type} ${event.data.calls}`;
    case "model.delta":
      return event.data.text;
    case "run.failed":
      return `${event.type} ${event.data.error?.code}`;
    case "run.queued":
    case "run.started":
    case "run.paused":
    case "run.completed":
    case "run.cancelled":
      return event.type;
    default:
      return event satisfies never;
  }
}

async function eventsOf(run: Run): Promise<string[]> {
  const { data } = await client.GET("/threads/{thread_id}/runs/{run_id}/events", {
    params: { path: { thread_id: run.thread_id, run_id: run.id } },
    parseAs: "text",
  });
  const told = [...(data ?? "").matchAll(/^data: (.*)$/gm)];
  return told.map((each) => said(JSON.parse(each[1] ?? "") as Event));
}

const paused = await start();
if (!paused.pause?.call) throw new Error(`no call: ${paused.status}`);
const ended = await approve(paused.pause, {
  ...paused.pause.call.arguments,
  to: "team@example.com",
});
console.log(
  JSON.stringify({
    kind: paused.pause.kind,
    status: ended.status,
    output: ended.output,
    decidedBy: ended.pauses[0]?.decision?.by,
    events: await eventsOf(ended),
    unknown: await codeOfUnknownPause(),
  }),
);
