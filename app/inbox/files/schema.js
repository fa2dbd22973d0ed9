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
      return choicesOf(itemOf(schema, root)) ? "choices" : "json";
    case "object":
      return Object.keys(schema.properties ?? {}).length ? "object" : "json";
    case undefined:
      return "anything";
    default:
      return "json";
  }
}

/** The values that a schema allows, if it lists them. */
export function choicesOf(schema) {
  return schema.enum ?? ("const" in schema ? [schema.const] : undefined);
}

/** The plain schema of the items of a list. */
export function itemOf(schema, root) {
  return plain(schema.items, root);
}
