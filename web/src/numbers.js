/** JSON whose integers keep all their digits: those that a Number would round are raw JSON, where the browser has that. */

/** Parse JSON. JSON.stringify writes the result with the digits of the text. */
export function parseJson(text) {
  if (!JSON.rawJSON || !/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
      ? JSON.rawJSON(context.source)
      : value,
  );
}

/** Return the number in a text, or the text itself if it is no number, or none that this browser can keep. */
export function parseNumber(text) {
  const given = text.trim();
  if (!/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(given)) return text;
  if (!/^-?\d+$/.test(given) || Number.isSafeInteger(Number(given))) return Number(given);
  return JSON.rawJSON && /^-?(0|[1-9]\d*)$/.test(given) ? JSON.rawJSON(given) : text;
}

/** Whether a value is an integer that is kept as raw JSON. */
export function isLargeInteger(value) {
  return JSON.isRawJSON?.(value) ?? false;
}
