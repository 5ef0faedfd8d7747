/** URI templates (RFC 6570), as far as resources use them. */

const EXPRESSION = /\{([+#./;?&]?)([^{}]+)\}/g;
// [before the first value, between values, whether names are written, whether reserved characters stay]
const OPERATORS = {
  "": ["", ",", false, false],
  "+": ["", ",", false, true],
  "#": ["#", ",", false, true],
  ".": [".", ".", false, false],
  "/": ["/", "/", false, false],
  ";": [";", ";", true, false],
  "?": ["?", "&", true, false],
  "&": ["&", "&", true, false],
};

/** Return the variables of a template as {name, required}. Those of a query can be left out. */
export function listVariables(template) {
  const variables = new Map();
  for (const [, operator, list] of template.matchAll(EXPRESSION))
    for (const name of list.split(",").map(readName))
      variables.set(name, { name, required: operator !== "?" && operator !== "&" });
  return [...variables.values()];
}

/** Return the URI for values by name. Variables without a value are left out. */
export function expandTemplate(template, values) {
  return template.replace(EXPRESSION, (_, operator, list) => {
    const [first, separator, isNamed, isReserved] = OPERATORS[operator];
    const encode = isReserved ? encodeURI : encodeURIComponent;
    const parts = list
      .split(",")
      .map(readName)
      .filter((name) => values[name])
      .map((name) => (isNamed ? `${name}=${encode(values[name])}` : encode(values[name])));
    return parts.length ? first + parts.join(separator) : "";
  });
}

function readName(text) {
  return text.replace(/(\*|:\d+)$/, "");
}
