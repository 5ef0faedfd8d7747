/** Requests to the server of this page, with the token of this tab. */
import { signal } from "@preact/signals";
import { parseJson } from "./numbers.js";

const KEY = `mcp-bridge token ${location.pathname}`;

/** Why a token is needed: "" if none is, otherwise the text to show. */
export const tokenProblem = signal("");

let token = takeToken() ?? sessionStorage.getItem(KEY);

addEventListener("hashchange", () => {
  const given = takeToken();
  if (given) setToken(given);
});

/** A failed request. `status` is that of HTTP, 0 if the server did not respond. */
export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Take the token from the address bar, where no server and no log sees it, and remove it there. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return null;
  history.replaceState(null, "", location.pathname + location.search);
  sessionStorage.setItem(KEY, given);
  return given;
}

export function setToken(given) {
  token = given;
  sessionStorage.setItem(KEY, given);
  tokenProblem.value = "";
}

export function hasToken() {
  return Boolean(token);
}

/** Send a request and return the response, whatever its status; raise ApiError if there is none, or the token is not valid. */
export async function send(path, { headers, ...options } = {}) {
  // A header cannot have other characters, so the server rejects a token that has some.
  const authorization = token ? { Authorization: `Bearer ${token.replace(/[^ -~]/g, "?")}` } : {};
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...authorization, ...headers }, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not respond.", 0);
  }
  if (response.status === 401) {
    const problem = token ? "The server does not accept this token." : "This server needs a token.";
    tokenProblem.value = problem;
    throw new ApiError(problem, 401);
  }
  return response;
}

/** Send a request to the page's API and return its JSON. Raises ApiError with the text of the server. */
export async function requestJson(path, body) {
  const options =
    body === undefined
      ? {}
      : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const response = await send(path, options);
  if (!response.ok) throw await readError(response);
  return (await readJson(response)) ?? {};
}

/** Return the error of a response that is not ok, with the text of the server. */
export async function readError(response) {
  const message = (await readJson(response))?.error?.message;
  return new ApiError(message ?? `The server responded with status ${response.status}.`, response.status);
}

/** Return the JSON of a response, null if it has none. */
export async function readJson(response) {
  try {
    return parseJson(await response.text());
  } catch {
    return null;
  }
}

/** Yield the server-sent events of a response as {id, event, data} with text data. */
export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event.data) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parseEvent(block) {
  const event = { id: null, event: "message", data: "" };
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
    if (field === "data") event.data += (event.data && "\n") + value;
    else if (field) event[field] = value;
  }
  return event;
}
