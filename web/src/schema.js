/** JSON Schema as forms need it: references resolved, alternatives listed, first values. Validates nothing. */

import { isLargeInteger } from "./numbers.js";

const MAX_DEPTH = 12; // references can be recursive

/** Return the schema with its reference and its `allOf` merged into it. */
export function resolveSchema(schema, root, depth = 0) {
  if (schema === true || schema === undefined || schema === null) return {};
  if (schema === false) return { not: {} };
  let resolved = schema;
  if (typeof schema.$ref === "string" && depth < MAX_DEPTH) {
    const { $ref, ...rest } = schema;
    resolved = { ...resolveSchema(findPointer($ref, root), root, depth + 1), ...rest };
  }
  if (Array.isArray(resolved.allOf) && depth < MAX_DEPTH) {
    const { allOf, ...rest } = resolved;
    resolved = [...allOf.map((part) => resolveSchema(part, root, depth + 1)), rest].reduce(mergeSchemas, {});
  }
  return resolved;
}

function findPointer(reference, root) {
  if (!reference.startsWith("#")) return {};
  const keys = decodeURIComponent(reference.slice(1)).split("/").slice(1);
  return keys.reduce((place, key) => place?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root);
}

function mergeSchemas(left, right) {
  const merged = { ...left, ...right };
  if (left.properties && right.properties) merged.properties = { ...left.properties, ...right.properties };
  if (left.required && right.required) merged.required = [...new Set([...left.required, ...right.required])];
  return merged;
}

/** Return the alternatives of a resolved schema without null, and whether null is one of them. */
export function listAlternatives(schema, root) {
  const { anyOf, oneOf, ...rest } = schema;
  const parts = anyOf ?? oneOf;
  let alternatives;
  if (Array.isArray(parts)) {
    const { default: _, title, description, ...base } = rest;
    alternatives = parts.map((part) => mergeSchemas(base, resolveSchema(part, root)));
    const values = alternatives.filter(({ type }) => type !== "null");
    if (values.length && values.every((part) => "const" in part)) {
      alternatives = [
        {
          ...base,
          enum: values.map((part) => part.const),
          enumNames: values.map((part) => part.title ?? String(part.const)),
        },
        ...alternatives.filter(({ type }) => type === "null"),
      ];
    }
  } else if (Array.isArray(schema.type)) {
    alternatives = schema.type.map((type) => ({ ...schema, type }));
  } else {
    alternatives = [schema];
  }
  const others = alternatives.filter(({ type }) => type !== "null");
  const isNullable = others.length < alternatives.length || (Array.isArray(schema.enum) && schema.enum.includes(null));
  return { alternatives: others, isNullable };
}

/** Return which input a schema without alternatives needs. */
export function getKind(schema) {
  if ("const" in schema) return "const";
  if (Array.isArray(schema.enum)) return "enum";
  if (typeof schema.type === "string") return schema.type;
  if (schema.properties) return "object";
  if (schema.items || schema.prefixItems) return "array";
  return "any";
}

/** Return the value that a form starts with; undefined for a field that starts empty. */
export function createValue(given, root, isRequired = true, depth = 0) {
  const schema = resolveSchema(given, root);
  if ("default" in schema) return schema.default ?? undefined; // null is what the server uses anyway
  if (!isRequired || depth > MAX_DEPTH) return undefined;
  const { alternatives, isNullable } = listAlternatives(schema, root);
  if (isNullable || !alternatives.length) return undefined;
  const [only, ...others] = alternatives;
  if (others.length && getKind(only) !== "object") return undefined; // the user chooses first
  const kind = getKind(only);
  if (kind === "const") return only.const;
  if (kind === "boolean") return false;
  if (kind === "array") return [];
  if (kind !== "object") return undefined;
  const value = {};
  for (const [name, property] of Object.entries(only.properties ?? {})) {
    const first = createValue(property, root, only.required?.includes(name) ?? false, depth + 1);
    if (first !== undefined) value[name] = first;
  }
  return value;
}

/** Whether a value could belong to an alternative. Decides only which input is shown. */
export function isOfKind(value, schema) {
  const kind = getKind(schema);
  if (kind === "const") return schema.const === value;
  if (kind === "enum") return schema.enum.includes(value);
  if (kind === "integer" || kind === "number") return isNumber(value, kind);
  if (kind === "array") return Array.isArray(value);
  if (kind === "object") return isObject(value) && hasConstants(value, schema);
  return kind === "any" || typeof value === kind;
}

function isNumber(value, kind) {
  return isLargeInteger(value) || (kind === "integer" ? Number.isInteger(value) : typeof value === "number");
}

function hasConstants(value, schema) {
  return Object.entries(schema.properties ?? {}).every(
    ([name, property]) => !Object.hasOwn(value, name) || !("const" in Object(property)) || property.const === value[name],
  );
}

export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !isLargeInteger(value);
}

/** Return a short text for the type of a schema, such as `string[] | null`. */
export function describeType(given, root, depth = 0) {
  const schema = resolveSchema(given, root);
  const { alternatives, isNullable } = listAlternatives(schema, root);
  const names = alternatives.map((part) => {
    const kind = getKind(part);
    if (kind === "const") return JSON.stringify(part.const);
    if (kind === "enum")
      return part.enum.length > 5 ? "enum" : part.enum.map((value) => JSON.stringify(value)).join(" | ");
    if (kind === "array" && part.items && depth < 3) return wrap(describeType(part.items, root, depth + 1));
    if (kind === "object" && !part.properties && isObject(part.additionalProperties) && depth < 3)
      return `object of ${describeType(part.additionalProperties, root, depth + 1)}`;
    return part.format ? `${kind} (${part.format})` : kind;
  });
  return [...new Set([...names, ...(isNullable ? ["null"] : [])])].join(" | ");
}

/** Return a name for one of several alternatives: its title, its constant property, or its type. */
export function describeAlternative(schema, index, alternatives, root) {
  const constant = Object.entries(schema.properties ?? {}).find(([, property]) => "const" in Object(property));
  const name = schema.title ?? (constant ? `${constant[0]}: ${constant[1].const}` : describeType(schema, root));
  const isUnique = alternatives.every((other) => other === schema || other.title || describeType(other, root) !== name);
  return isUnique ? name : `${name} ${index + 1}`;
}

function wrap(type) {
  return type.includes(" ") ? `(${type})[]` : `${type}[]`;
}

/** Return the problems in the text of a validation error, as [{path, text}] with paths such as `$.items[0].name`. */
export function listProblems(text) {
  return [...text.matchAll(/^- (\$[^:\n]*): (.+)$/gm)].map(([, path, message]) => ({ path, text: message }));
}
