/** What the page reads about a call only while it is shown: its log messages, and its exception. */
import { useEffect, useState } from "preact/hooks";
import { requestJson } from "./api.js";
import { calls } from "./store.js";
import { Code, CopyButton } from "./parts.jsx";

const REFERENCE = /\(reference ([0-9a-f]+)\)\.$/;

/** The log messages and, for operators, the exception of a call. They are read again when the call changes. */
export function CallDetails({ call, hasLogs = true }) {
  const [{ logs, exception }, setDetails] = useState({ logs: [], exception: null });
  useEffect(() => {
    if (!call.logs && call.state !== "error") return undefined;
    let isCurrent = true;
    const read = async () => {
      try {
        const details = await requestJson(`page/calls/${call.id}`);
        if (isCurrent) setDetails(details);
      } catch {
        // The server no longer keeps this call, so what was read before stays.
      }
    };
    read();
    return () => {
      isCurrent = false;
    };
  }, [call.id, call.logs, call.state]);
  return (
    <>
      {exception && (
        <>
          <div class="row spread above">
            <h3>Exception</h3>
            <CopyButton text={exception} label="Copy exception" />
          </div>
          <Code text={exception} label="Exception" />
          <p class="muted small">Clients see only the reference.</p>
        </>
      )}
      {hasLogs && logs.length > 0 && (
        <>
          <h3>Log</h3>
          <LogLines logs={logs} />
        </>
      )}
    </>
  );
}

/** The exception behind the internal error in a result, which names it by a reference. */
export function ResultException({ result }) {
  const text = result?.isError ? (result.content?.[0]?.text ?? "") : "";
  const reference = REFERENCE.exec(text)?.[1];
  const call = reference && calls.value.find((other) => other.result?.error?.includes(reference));
  return call ? <CallDetails call={call} hasLogs={false} /> : null;
}

export function LogLines({ logs }) {
  const lines = logs.map(({ level, logger, data }) => {
    const text = typeof data === "string" ? data : JSON.stringify(data);
    return logger ? `${level}: ${logger}: ${text}` : `${level}: ${text}`;
  });
  return <Code label="Log of the call" text={lines.join("\n")} />;
}
