/** Parts that several panels use. */
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { escapeInvisible, formatSize } from "./format.js";

const MAX_SHOWN = 30_000; // characters; the rest is shown on request, because the browser is slow with more
const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** The text that screen readers announce. */
export const announcement = signal("");

export function announce(text) {
  announcement.value = text;
}

export function Empty({ title, children }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <p>{children}</p>}
    </div>
  );
}

/** A state as a dot and a word; the word alone carries the meaning. */
export function State({ state }) {
  return <span class={`state state-${state}`}>{state}</span>;
}

export function CopyButton({ text, label = "Copy" }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    announce("Copied");
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    navigator.clipboard && (
      <button type="button" class="quiet" onClick={copy}>
        {isCopied ? "Copied" : label}
      </button>
    )
  );
}

/** JSON with colours, or any text without them. A long text is truncated until the user asks for all of it. */
export function Code({ value, text = JSON.stringify(value, null, 2) ?? "", label }) {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > MAX_SHOWN && !isWhole;
  const shown = escapeInvisible(isLong ? text.slice(0, MAX_SHOWN) : text);
  return (
    <div class="code-block">
      <pre class="code" tabindex="0" role="region" aria-label={label ?? "JSON"}>
        {value === undefined || text.length > MAX_SHOWN ? shown : highlight(shown)}
      </pre>
      {isLong && (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          Show all ({formatSize(text.length)})
        </button>
      )}
    </div>
  );
}

function highlight(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    const [whole, string, colon, word] = match;
    parts.push(text.slice(end, match.index));
    const kind = colon ? "key" : string ? "string" : word ? "word" : "number";
    parts.push(<span class={`json-${kind}`}>{string ?? whole}</span>, colon ?? "");
    end = match.index + whole.length;
  }
  return [...parts, text.slice(end)];
}

/** Text of the server in which backticks mark code. */
export function Prose({ text }) {
  return text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}

/** The lines of a unified diff. */
export function Diff({ lines, label }) {
  const list = typeof lines === "string" ? lines.split("\n") : lines;
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  return (
    <pre class="code diff" tabindex="0" role="region" aria-label={label}>
      {list.map((line, index) => (
        <span key={index} class={`line ${/^(\+\+\+|---)/.test(line) ? "place" : (kinds[line[0]] ?? "")}`}>
          {line}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

/** Details whose content is rendered only while it is open. */
export function Fold({ title, children }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {isOpen && children}
    </details>
  );
}

/** Tabs as the ARIA practices describe them: arrow keys select. `tabs` are [id, title] pairs. */
export function Tabs({ tabs, selected, onSelect, label }) {
  const list = useRef(null);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const index = (tabs.findIndex(([id]) => id === selected) + step + tabs.length) % tabs.length;
    onSelect(tabs[index][0]);
    list.current.children[index].focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
      {tabs.map(([id, title]) => (
        <button
          key={id}
          type="button"
          role="tab"
          aria-selected={id === selected}
          tabindex={id === selected ? 0 : -1}
          onClick={() => onSelect(id)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

/** A button for an action of the server, which shows its error. `action` returns a promise. */
export function ActionButton({ action, children, ...attributes }) {
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setProblem("");
    try {
      await action();
    } catch (error) {
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button type="button" {...attributes} disabled={isBusy || attributes.disabled} onClick={run}>
        {children}
      </button>
      {problem && (
        <span class="problem" role="alert">
          {problem}
        </span>
      )}
    </>
  );
}

/** A simple table. `columns` are [title, render, class?] and `rows` any objects. */
export function Table({ label, columns, rows, getKey }) {
  return (
    <div class="table-frame" tabindex="0" role="region" aria-label={label}>
      <table class="table stacks">
        <thead>
          <tr>
            {columns.map(([title, , style]) => (
              <th key={title} scope="col" class={style?.includes("number") ? "number" : ""}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={getKey?.(row) ?? index}>
              {columns.map(([title, render, style]) => (
                <td key={title} class={style} data-title={title}>
                  {render(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Return a ref and the width of its element in px, 0 before it is rendered. */
export function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** Render again every `interval` ms, for durations that grow. */
export function useClock(interval, isActive) {
  const [, setNow] = useState(0);
  useEffect(() => {
    if (!isActive) return undefined;
    const timer = setInterval(() => setNow(Date.now()), interval);
    return () => clearInterval(timer);
  }, [interval, isActive]);
}
