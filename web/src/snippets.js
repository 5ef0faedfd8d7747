/** A call as a command, a request or a program. The token is always a variable, and secrets are left out. */
import { hasToken } from "./api.js";
import { buildRequest } from "./mcp.js";
import { server } from "./store.js";

const VARIABLE = "MCP_BRIDGE_TOKEN";
const REDACTED = "[secret]";
const WORD = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g;

/** The formats of a call: [id, title, format]. `call` has `tool`, `arguments`, and perhaps `result` as structured content. */
export const FORMATS = [
  ["command", "mcp-bridge call", formatCommand],
  ["curl", "curl", formatCurl],
  ["python", "Python", formatPython],
  ["pytest", "pytest", formatPytest],
];

/** Return a value in which the values under names of secrets are redacted. */
export function redactSecrets(value, isSecret = false) {
  if (Array.isArray(value)) return value.map((item) => redactSecrets(item, isSecret));
  if (value && typeof value === "object" && !JSON.isRawJSON?.(value))
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, redactSecrets(item, isSecretName(key))]));
  return isSecret && value && typeof value !== "boolean" ? REDACTED : value;
}

function isSecretName(name) {
  const { words: secrets, pairs, suffixes } = server.value.secret_names;
  const words = (name.match(WORD) ?? []).map((word) => word.toLowerCase());
  while (suffixes.includes(words.at(-1))) words.pop();
  return secrets.includes(words.at(-1)) || pairs.includes(words.slice(-2).join(" "));
}

function formatCommand({ tool, arguments: args }) {
  const token = hasToken() ? ` --token-env ${VARIABLE}` : "";
  return `mcp-bridge call ${quote(getUrl())} ${quote(tool.name)}${token} \\\n  --arguments ${quote(JSON.stringify(args))}`;
}

function formatCurl({ tool, arguments: args }) {
  const { headers, body } = buildRequest(tool, args);
  const lines = [`curl --no-buffer ${quote(getUrl())}`];
  if (hasToken()) lines.push(`--header "Authorization: Bearer $${VARIABLE}"`);
  for (const [name, value] of Object.entries(headers)) lines.push(`--header ${quote(`${name}: ${value}`)}`);
  lines.push(`--data ${quote(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

function formatPython({ tool, arguments: args }) {
  const headers = hasToken() ? `headers={"Authorization": "Bearer " + os.environ["${VARIABLE}"]}` : "";
  return `import asyncio
${hasToken() ? "import os\n" : ""}
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client


async def main():
    async with httpx2.AsyncClient(${headers}) as http:
        async with Client(streamable_http_client(${toPython(getUrl())}, http_client=http)) as client:
            result = await client.call_tool(${toPython(tool.name)}, ${toPython(args)})
            print(result)


asyncio.run(main())
`;
}

function formatPytest({ tool, arguments: args, result, file }) {
  const name = tool.name.replace(/\W+/g, "_");
  const outcome = result === undefined ? "assert not result.is_error" : `assert result.structured_content == ${toPython(result)}`;
  return `import asyncio

from mcp_bridge import open_bridge
from mcp_bridge.testing import connect


def test_${name}():
    async def call():
        async with open_bridge(${toPython(file ?? "tools.py")}) as bridge, connect(bridge) as client:
            return await client.call_tool(${toPython(tool.name)}, ${toPython(args)})

    result = asyncio.run(call())
    ${outcome}
`;
}

/** Quote a text for a POSIX shell. */
function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function toPython(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(toPython).join(", ")}]`;
  if (typeof value === "object" && !JSON.isRawJSON?.(value)) {
    const members = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${toPython(item)}`);
    return `{${members.join(", ")}}`;
  }
  return JSON.stringify(value);
}

function getUrl() {
  return new URL("mcp", document.baseURI).href;
}
