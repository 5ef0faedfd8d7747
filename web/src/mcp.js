/** A client of this server in MCP 2026-07-28: the page calls tools as every other client does. */
import { ApiError, readEvents, readJson, send } from "./api.js";
import { isLargeInteger, parseJson } from "./numbers.js";

const VERSION = "2026-07-28";
const METHODS = { tool: "tools/call", resource: "resources/read", prompt: "prompts/get" };
const META = {
  "io.modelcontextprotocol/protocolVersion": VERSION,
  "io.modelcontextprotocol/clientInfo": { name: "mcp-bridge-page", title: "Web page", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {}, url: {} }, sampling: {} },
  "io.modelcontextprotocol/logLevel": "info",
  "mcp-bridge/session": `page-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`,
};

let lastId = 0;

/** Return all entries of a list method, from all pages of it. `member` is that of the result. */
export async function listEntries(method, member) {
  const entries = [];
  let cursor;
  do {
    const result = await request(method, cursor === undefined ? {} : { cursor });
    entries.push(...result[member]);
    cursor = result.nextCursor;
  } while (cursor !== undefined);
  return entries;
}

/** Return the values that the server suggests for an argument. `others` are the values of the other arguments. */
export async function completeArgument(ref, name, value, others) {
  try {
    const params = { ref, argument: { name, value }, context: { arguments: others } };
    return (await request("completion/complete", params)).completion.values;
  } catch {
    return []; // The user can type any value.
  }
}

/**
 * Call a tool, read a resource (`kind` is "resource") or get a prompt, and return the result.
 *
 * `onNotification` receives the progress and log messages of the call, and `onMessage` every message of it, with
 * whether the page has sent it. `askUser` receives the questions of a round, by key, and returns the answers; then the
 * call continues. Aborting `signal` cancels the call.
 */
export async function callEntry(entry, args, { signal, onNotification, onMessage, askUser }) {
  const method = METHODS[entry.kind ?? "tool"];
  const headers = listEntryHeaders(entry, args);
  const params = entry.kind === "resource" ? { uri: entry.name } : { name: entry.name, arguments: args };
  let continuation = {};
  for (;;) {
    const options = { headers, signal, onNotification, onMessage };
    const result = await request(method, { ...params, ...continuation }, options);
    if (result.resultType !== "input_required") return result;
    continuation = { inputResponses: await askUser(result.inputRequests ?? {}) };
    if (result.requestState !== undefined) continuation.requestState = result.requestState;
  }
}

/** Return the headers and the message of a call as another program would send them. */
export function buildRequest(tool, args) {
  const _meta = { ...META, "io.modelcontextprotocol/clientInfo": { name: "curl", version: "1" } };
  _meta["io.modelcontextprotocol/clientCapabilities"] = {};
  delete _meta["mcp-bridge/session"];
  const params = { name: tool.name, arguments: args, _meta };
  return {
    headers: listHeaders(METHODS.tool, listEntryHeaders(tool, args)),
    body: { jsonrpc: "2.0", id: 1, method: METHODS.tool, params },
  };
}

function listHeaders(method, headers) {
  return {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": VERSION,
    "Mcp-Method": method,
    ...headers,
  };
}

function listEntryHeaders({ name, inputSchema }, args) {
  return { "Mcp-Name": encodeHeader(name), ...listArgumentHeaders(inputSchema, args) };
}

async function request(method, params, { headers, signal, onNotification, onMessage } = {}) {
  const id = ++lastId;
  const _meta = onNotification ? { ...META, progressToken: id } : META;
  const body = { jsonrpc: "2.0", id, method, params: { ...params, _meta } };
  onMessage?.(body, true);
  const response = await send("mcp", {
    method: "POST",
    signal,
    headers: listHeaders(method, headers),
    body: JSON.stringify(body),
  });
  const message = await readResponse(response, id, (notification) => {
    onMessage?.(notification, false);
    onNotification?.(notification);
  });
  if (message) onMessage?.(message, false);
  if (message?.error)
    throw Object.assign(new ApiError(message.error.message, response.status), {
      code: message.error.data?.code ?? message.error.code,
    });
  if (!message?.result)
    throw new ApiError(`The server responded with status ${response.status} and no result.`, response.status);
  return message.result;
}

async function readResponse(response, id, onNotification) {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return readJson(response);
  try {
    for await (const { data } of readEvents(response)) {
      const message = parseJson(data);
      if (message.id === id) return message;
      if (message.method) onNotification(message);
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  throw new ApiError("The connection broke before the result arrived. The call was cancelled.", 0);
}

/** Return the arguments that a tool wants repeated as headers (`x-mcp-header` in its schema). */
function listArgumentHeaders(schema, value, headers = {}) {
  for (const [name, property] of Object.entries(schema?.properties ?? {})) {
    const found = value?.[name];
    const isPlain = ["string", "number", "boolean"].includes(typeof found) || isLargeInteger(found);
    if (property?.["x-mcp-header"] && isPlain) {
      headers[`Mcp-Param-${property["x-mcp-header"]}`] = encodeHeader(String(found.rawJSON ?? found));
    }
    listArgumentHeaders(property, found, headers);
  }
  return headers;
}

/** Return text as the value of a header, in Base64 between sentinels if it cannot be one as it is. */
export function encodeHeader(text) {
  if (/^[\x20-\x7e]*$/.test(text) && text.trim() === text && !text.startsWith("=?")) return text;
  const bytes = new TextEncoder().encode(text);
  return `=?base64?${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))}?=`;
}
