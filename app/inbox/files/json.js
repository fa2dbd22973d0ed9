// Reads and writes JSON without losing a digit: what an approver sees is what was sent.

/** A number that JavaScript writes otherwise than it was sent, as 1.10 or 9007199254740993. */
export class ExactNumber {
  constructor(digits) {
    this.digits = digits;
  }

  toString() {
    return this.digits;
  }

  toJSON() {
    return JSON.rawJSON ? JSON.rawJSON(this.digits) : Number(this.digits);
  }
}

/** The value of a JSON text; throws a SyntaxError. */
export function readJson(text) {
  return JSON.parse(text, (_key, value, context) => {
    const isChanged = typeof value === "number" && context && context.source !== String(value);
    return isChanged ? new ExactNumber(context.source) : value;
  });
}

/** The JSON text of a value, for the wire or, indented, for a person. */
export function writeJson(value, indent) {
  return JSON.stringify(value, null, indent);
}

/** Whether a value is a JSON object. */
export function isObject(value) {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof ExactNumber)
  );
}

/** A part of a JSON pointer (RFC 6901). */
export function pointerToken(name) {
  return String(name).replaceAll("~", "~0").replaceAll("/", "~1");
}
