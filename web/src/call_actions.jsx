/** What the user can do with a call: copy it as a program, call again, and edit it first. */
import { useState } from "preact/hooks";
import { formatSize } from "./format.js";
import { announce } from "./parts.jsx";
import { formatAddress } from "./route.js";
import { startRun } from "./runs.js";
import { FORMATS, redactSecrets } from "./snippets.js";
import { server, tools } from "./store.js";
import { setDraft } from "./try_it.jsx";

const BYTES_PER_TOKEN = 4; // a usual estimate for English text and JSON

/** The size of a text for a model, such as `1.2 kB, about 300 tokens`. */
export function formatCost(bytes) {
  return `${formatSize(bytes)}, about ${Math.ceil(bytes / BYTES_PER_TOKEN).toLocaleString("en")} tokens`;
}

export function measureJson(value) {
  return new TextEncoder().encode(JSON.stringify(value) ?? "").length;
}

/** Buttons that copy a call. `result` is its structured content, if it is known and complete. */
export function CopyCall({ tool, args, result }) {
  const [copied, setCopied] = useState("");
  const copy = async ([id, title, format]) => {
    const call = { tool, arguments: redactSecrets(args), result: redactSecrets(result), file: server.value?.file };
    await navigator.clipboard.writeText(format(call));
    setCopied(id);
    announce(`Copied as ${title}`);
  };
  return (
    navigator.clipboard && (
      <details class="menu">
        <summary>Copy as</summary>
        <div role="group" aria-label="Copy the call as">
          {FORMATS.map((format) => (
            <button key={format[0]} type="button" class="quiet" onClick={() => copy(format)}>
              {copied === format[0] ? `${format[1]}: copied` : format[1]}
            </button>
          ))}
        </div>
      </details>
    )
  );
}

/** The actions for a call in the history. Arguments that are redacted or truncated can only be edited. */
export function CallActions({ call }) {
  const tool = call.kind === "tool" && tools.value?.find(({ name }) => name === call.tool);
  if (!tool || !call.arguments || typeof call.arguments !== "object") return null;
  const open = () => setDraft(tool.name, call.arguments);
  const repeat = () => {
    open();
    startRun(tool, call.arguments);
  };
  const result = call.result_is_exact && call.state === "ok" && tool.outputSchema ? call.result : undefined;
  return (
    <div class="row above">
      {call.is_exact && (
        <a class="button" href={formatAddress("tools", tool.name)} onClick={repeat}>
          Call again
        </a>
      )}
      <a class="button" href={formatAddress("tools", tool.name)} onClick={open}>
        Edit and call
      </a>
      <CopyCall tool={tool} args={call.arguments} result={result} />
      {!call.is_exact && <span class="muted small">Parts of the arguments are redacted or left out.</span>}
    </div>
  );
}
