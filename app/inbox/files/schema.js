// Reads JSON Schema as far as a form needs it: which control asks for a value.

import { isObject } from "./json.js";

const MOST_REFERENCES = 20;

/**
 * A schema without references and without the alternatives that a form does not show: null
 * (`isNullable`), and the mask of a sensitive value (`isSensitive`).
 */
export function plain(schema, root) {
  let found = isObject(schema) ? schema : {};
  for (let count = 0; count < MOST_REFERENCES; count += 1) {
    const next = simplified(found, root);
    if (next === found) return found;
    found = next;
  }
  return {};
}

function simplified(schema, root) {
  if (schema.$ref) return { ...referred(schema.$ref, root), ...without(schema, "$ref") };
  if (schema["x-sensitive"]) return { ...without(schema, "x-sensitive"), isSensitive: true };
  if (Array.isArray(schema.type)) return oneType(schema);
  if (schema.allOf?.length === 1) return { ...schema.allOf[0], ...without(schema, "allOf") };
  if (schema.anyOf) return oneAlternative(schema);
  return schema;
}

function referred(reference, root) {
  const path = reference.replace(/^#\/?/, "").split("/").filter(Boolean);
  const names = path.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
  const found = names.reduce((at, name) => at?.[name], root);
  return isObject(found) ? found : {};
}

function oneType(schema) {
  const types = schema.type.filter((type) => type !== "null");
  if (types.length !== 1) return { ...without(schema, "type"), isMixed: true };
  return { ...schema, type: types[0], isNullable: types.length < schema.type.length };
}

function oneAlternative(schema) {
  const offered = schema.anyOf.filter((each) => each.const !== "***");
  const others = offered.filter((each) => each.type !== "null");
  const rest = without(schema, "anyOf");
  const isNullable = others.length < offered.length || schema.isNullable;
  if (others.length === 1) return { ...others[0], ...rest, isNullable };
  if (isDecimal(others)) return { ...rest, type: "string", isNullable, isDecimal: true };
  return { ...rest, isNullable, isMixed: true };
}

/** A decimal may be sent as a number or, to lose nothing, as a text. */
function isDecimal(alternatives) {
  const types = alternatives.map((each) => each.type).sort();
  return types.join() === "number,string" && alternatives.some((each) => each.pattern);
}

function without(schema, name) {
  const { [name]: _, ...rest } = schema;
  return rest;
}

/** The kind of control that asks for a value of a plain schema; "json" where no other fits. */
export function controlOf(schema, root) {
  if (schema.isMixed || schema.oneOf || schema.allOf) return "json";
  if (choicesOf(schema)) return "choice";
  switch (schema.type) {
    case "boolean":
    case "string":
      return schema.type;
    case "integer":
    case "number":
      return "number";
    case "array":
      return controlOfList(schema, root);
    case "object":
      return Object.keys(schema.properties ?? {}).length ? "object" : "json";
    case undefined:
      return "anything";
    default:
      return "json";
  }
}

function controlOfList(schema, root) {
  if (schema.prefixItems || schema.items === undefined) return "json";
  return choicesOf(itemOf(schema, root)) ? "choices" : "list";
}

/** The values that a schema allows, if it lists them. */
export function choicesOf(schema) {
  return schema.enum ?? ("const" in schema ? [schema.const] : undefined);
}

/** The plain schema of the items of a list. */
export function itemOf(schema, root) {
  return plain(schema.items, root);
}

// ── What a value has to be ──────────────────────────────────────────────────────────────────────

const RULES = {
  string: {
    minLength: [(text, least) => lengthOf(text) >= least, (least) => `Write at least ${least} characters.`],
    maxLength: [(text, most) => lengthOf(text) <= most, (most) => `Write at most ${most} characters.`],
    pattern: [matches, () => "This does not have the form that is asked for."],
  },
  number: {
    minimum: [(number, least) => number >= least, (least) => `This has to be at least ${least}.`],
    maximum: [(number, most) => number <= most, (most) => `This may be at most ${most}.`],
    exclusiveMinimum: [(number, bound) => number > bound, (bound) => `This has to be more than ${bound}.`],
    exclusiveMaximum: [(number, bound) => number < bound, (bound) => `This has to be less than ${bound}.`],
  },
  list: {
    minItems: [(list, least) => list.length >= least, (least) => `Give at least ${least}.`],
    maxItems: [(list, most) => list.length <= most, (most) => `Give at most ${most}.`],
  },
};

/** What is wrong with a value by its plain schema, as far as a form can tell; the service tells the rest. */
export function wrongWith(value, schema) {
  const rules = Object.entries(RULES[Array.isArray(value) ? "list" : typeof value] ?? {});
  for (const [name, [isRight, words]] of rules) {
    const bound = schema[name];
    if (bound !== undefined && !isRight(value, bound)) return words(bound);
  }
  return undefined;
}

/** In characters as people count them, and as JSON Schema does. */
function lengthOf(text) {
  return [...text].length;
}

/** A pattern that this browser does not know is left to the service. */
function matches(text, pattern) {
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true;
  }
}
