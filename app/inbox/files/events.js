// Follows a stream of server-sent events, and comes back where it left off when the line is lost.

const SOON_MS = 1_000;
const AT_LEAST_EVERY_MS = 15_000;
const QUIET_MS = 40_000; // the service says something every 15 seconds

/** One stream, from `start()` to `stop()`; it may be started again, and goes on after what it has told. */
export class Following {
  #open;
  #onEvent;
  #onLine;
  #lastId;
  #failures = 0;
  #aborting;
  #timer;

  /**
   * `open(lastId, signal)` gives the stream's body, or null where there is nothing more; `onEvent({type, data})`
   * is told each event; `onLine(error)` that the line stands, or why it does not.
   */
  constructor({ open, onEvent, onLine = () => {} }) {
    this.#open = open;
    this.#onEvent = onEvent;
    this.#onLine = onLine;
  }

  start() {
    if (this.#aborting) return;
    clearTimeout(this.#timer);
    this.#aborting = new AbortController();
    this.#follow(this.#aborting);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#aborting?.abort();
    this.#aborting = undefined;
  }

  /** Tries at once, whatever it is waiting for. */
  retry() {
    this.#failures = 0;
    this.stop();
    this.start();
  }

  async #follow(aborting) {
    let isOver = false;
    try {
      const body = await this.#open(this.#lastId, aborting.signal);
      if (aborting.signal.aborted) return;
      this.#failures = 0;
      this.#onLine();
      isOver = body === null;
      if (body) await this.#read(body, aborting);
    } catch (error) {
      if (!aborting.signal.aborted) this.#onLine(error);
    }
    if (this.#aborting !== aborting) return;
    this.#aborting = undefined;
    if (!isOver) this.#again();
  }

  #again() {
    const wait = Math.min(SOON_MS * 2 ** this.#failures, AT_LEAST_EVERY_MS);
    this.#failures += 1;
    this.#timer = setTimeout(() => this.start(), wait);
  }

  async #read(body, aborting) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await orQuiet(reader.read(), aborting);
      if (done || aborting.signal.aborted) return;
      const frames = (text + value).split("\n\n");
      text = frames.pop();
      for (const frame of frames) this.#tell(frame);
    }
  }

  #tell(frame) {
    const fields = Object.fromEntries(frame.split("\n").map(nameAndValue));
    if (fields.id !== undefined) this.#lastId = fields.id;
    if (fields.data) this.#onEvent(JSON.parse(fields.data));
  }
}

function nameAndValue(line) {
  const colon = line.indexOf(":");
  return [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
}

/** A line on which nothing comes for long is dead, though nobody has said so. */
async function orQuiet(reading, aborting) {
  const timer = setTimeout(() => aborting.abort(), QUIET_MS);
  try {
    return await reading;
  } finally {
    clearTimeout(timer);
  }
}
