/** Calls: those of all clients, live, in a table that renders only the visible rows. */
import { computed, signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { CallActions, formatCost } from "../call_actions.jsx";
import { CallDetails } from "../call_details.jsx";
import { calls, dropped, isRunning, runningCount, server } from "../store.js";
import { formatCount, formatDuration, formatTime } from "../format.js";
import { formatAddress, navigate, route } from "../route.js";
import { Code, CopyButton, Empty, State } from "../parts.jsx";
import { getLatency, Latency, listMeasuredTools } from "../latency.jsx";
import { Progress } from "../try_it.jsx";

const ROW = 30; // px, as in app.css
const MARGIN = 8; // rows rendered above and below the visible ones
const STATES = ["running", "asking", "ok", "error", "cancelled"];

const text = signal("");
const state = signal("");
const frozen = signal(null);
const isLatencyShown = signal(false);
const searchTexts = new WeakMap();

const shownCalls = computed(() => {
  const list = frozen.value ?? calls.value;
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length && !state.value) return list;
  return list.filter(
    (call) => (!state.value || call.state === state.value) && words.every((word) => getSearchText(call).includes(word)),
  );
});

function getSearchText(call) {
  let found = searchTexts.get(call);
  if (found === undefined) {
    found = [call.id, call.tool, call.client_name, call.principal, call.code, call.kind, JSON.stringify(call.arguments)]
      .join(" ")
      .toLowerCase();
    searchTexts.set(call, found);
  }
  return found;
}

export function CallsPanel() {
  const id = route.value.item;
  const all = calls.value;
  const selected = id && all.find((call) => String(call.id) === id);
  return (
    <div class={`split wide-list ${id ? "has-item" : ""}`}>
      <section class="split-list" aria-label="Calls">
        <div class="bar">
          <input
            type="search"
            data-search
            placeholder="Filter by tool, client or argument"
            aria-label="Filter calls"
            value={text.value}
            onInput={(event) => (text.value = event.target.value)}
          />
          <select aria-label="State" value={state.value} onChange={(event) => (state.value = event.target.value)}>
            <option value="">all states</option>
            {STATES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
          <button
            type="button"
            aria-pressed={frozen.value !== null}
            onClick={() => (frozen.value = frozen.value ? null : calls.value)}
          >
            {frozen.value ? "Resume" : "Pause"}
          </button>
          <button
            type="button"
            aria-pressed={isLatencyShown.value}
            onClick={() => (isLatencyShown.value = !isLatencyShown.value)}
          >
            Latency
          </button>
          <button type="button" disabled={!shownCalls.value.length} onClick={exportCalls}>
            Export
          </button>
        </div>
        {isLatencyShown.value ? (
          <LatencyOfTools />
        ) : all.length ? (
          <CallTable selectedId={id} />
        ) : (
          <Empty title="No calls yet.">
            Call a tool in <a href="#/tools">Tools</a>, or connect a client in <a href="#/install">Install</a>.
          </Empty>
        )}
        <p class="foot muted">
          {formatCount(shownCalls.value.length, "call")} shown
          {runningCount.value > 0 && `, ${runningCount.value} running`}
          {frozen.value && ", paused"}
          {dropped.value > 0 && `; ${formatCount(dropped.value, "event")} left out under load`}
        </p>
      </section>
      {id && (
        <section class="split-detail" aria-label="Call">
          {selected ? <Call call={selected} /> : <Empty title="This call is no longer in the list." />}
        </section>
      )}
    </div>
  );
}

/** Save the shown calls as a file. The server has redacted the secrets in them. */
function exportCalls() {
  const { name, version } = server.value;
  const text = JSON.stringify({ server: { name, version }, calls: shownCalls.value }, null, 2);
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: `${name}-calls.json` });
  link.click();
  URL.revokeObjectURL(url);
}

function CallTable({ selectedId }) {
  const frame = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [focusedId, setFocusedId] = useState(null);
  const list = shownCalls.value;
  const first = Math.max(0, Math.floor(view.top / ROW) - MARGIN);
  const last = Math.min(list.length, Math.ceil((view.top + view.height) / ROW) + MARGIN);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) =>
      setView((before) => ({ ...before, height: entry.contentRect.height })),
    );
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  useKeptPosition(frame, list);
  const focusRow = (index) => {
    const call = list[Math.max(0, Math.min(list.length - 1, index))];
    if (!call) return;
    setFocusedId(call.id);
    scrollToRow(frame.current, list.indexOf(call));
    requestAnimationFrame(() => frame.current?.querySelector(`[data-id="${CSS.escape(String(call.id))}"]`)?.focus());
  };
  const pressKey = (event) => {
    const page = Math.max(1, Math.floor(view.height / ROW) - 2);
    const index = list.findIndex(({ id }) => id === focusedId);
    const steps = {
      ArrowDown: index + 1,
      ArrowUp: index - 1,
      PageDown: index + page,
      PageUp: index - page,
      Home: 0,
      End: list.length - 1,
    };
    if (event.key in steps) {
      event.preventDefault();
      focusRow(steps[event.key]);
    } else if (event.key === "Enter" && index >= 0) navigate("calls", list[index].id);
  };
  const isFocusVisible = list.slice(first, last).some(({ id }) => id === focusedId);
  return (
    <div
      class="grid-frame"
      ref={frame}
      onScroll={(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
    >
      <table
        class="grid"
        role="grid"
        aria-label="Calls, newest first"
        aria-rowcount={list.length + 1}
        onKeyDown={pressKey}
      >
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col" class="col-time">
              Time
            </th>
            <th scope="col">Tool</th>
            <th scope="col" class="col-client">
              Client
            </th>
            <th scope="col" class="col-state">
              State
            </th>
            <th scope="col" class="number col-duration">
              Duration
            </th>
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" style={{ height: `${first * ROW}px` }} />}
          {list.slice(first, last).map((call, offset) => (
            <CallRow
              key={call.id}
              call={call}
              index={first + offset + 2}
              isSelected={String(call.id) === selectedId}
              isTabStop={isFocusVisible ? call.id === focusedId : offset === 0}
              onFocus={() => setFocusedId(call.id)}
            />
          ))}
          {last < list.length && <tr aria-hidden="true" style={{ height: `${(list.length - last) * ROW}px` }} />}
        </tbody>
      </table>
    </div>
  );
}

function CallRow({ call, index, isSelected, isTabStop, onFocus }) {
  return (
    <tr
      data-id={call.id}
      tabindex={isTabStop ? 0 : -1}
      aria-rowindex={index}
      aria-selected={isSelected}
      onFocus={onFocus}
      onClick={() => navigate("calls", call.id)}
    >
      <td class="mono muted col-time">{formatTime(call.started)}</td>
      <td class="mono clip">
        {call.tool}
        {call.is_task && <span class="tag inline">task</span>}
      </td>
      <td class="clip col-client">
        {call.client_name}
        {call.principal && <span class="muted"> {call.principal}</span>}
      </td>
      <td class="col-state">
        {call.state === "running" && call.progress ? (
          <Progress progress={{ ...call.progress, message: "" }} label={`Progress of ${call.tool}`} />
        ) : (
          <State state={call.state} />
        )}
      </td>
      <td class="mono number col-duration">{formatDuration(call.duration_ms)}</td>
    </tr>
  );
}

/** Keep the rows in place that the user looks at while new ones are added above. */
function useKeptPosition(frame, list) {
  const previous = useRef(list);
  useLayoutEffect(() => {
    const element = frame.current;
    const [newest] = previous.current;
    if (element.scrollTop > 0 && newest && list !== previous.current) {
      const added = list.findIndex(({ id }) => id === newest.id);
      if (added > 0) element.scrollTop += added * ROW;
    }
    previous.current = list;
  }, [list]);
}

function scrollToRow(element, index) {
  const top = index * ROW;
  const visible = element.clientHeight - 2 * ROW; // without the header
  if (top < element.scrollTop) element.scrollTop = top;
  else if (top > element.scrollTop + visible) element.scrollTop = top - visible;
}

function LatencyOfTools() {
  const [tool, setTool] = useState(null);
  const names = listMeasuredTools();
  const shown = names.includes(tool) ? tool : names[0];
  if (!shown) return <Empty title="No call has ended yet." />;
  return (
    <div class="pad scroll" tabindex="0" role="region" aria-label="Latency of the tools">
      <label class="row">
        Tool{" "}
        <select value={shown} onChange={(event) => setTool(event.target.value)}>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <Latency tool={shown} />
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Tool</th>
            <th scope="col" class="number">
              Calls
            </th>
            <th scope="col" class="number">
              Errors
            </th>
            <th scope="col" class="number">
              Median
            </th>
            <th scope="col" class="number">
              95 %
            </th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => {
            const { count, errors, p50, p95 } = getLatency(name);
            return (
              <tr key={name}>
                <td>
                  <button type="button" class="link mono" onClick={() => setTool(name)}>
                    {name}
                  </button>
                </td>
                <td class="number">{count}</td>
                <td class="number">{errors}</td>
                <td class="number">{formatDuration(p50)}</td>
                <td class="number">{formatDuration(p95)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Call({ call }) {
  const slowest = Math.max(...(call.layers ?? []).map(({ ms }) => ms ?? 0), 0.001);
  return (
    <>
      <div class="row spread">
        <a class="close" href="#/calls" aria-label="Close the call">
          Close
        </a>
        <a href={formatAddress("tools", call.tool)}>Open the tool</a>
      </div>
      <header class="item-head">
        <h2 class="mono">{call.tool}</h2>
        <State state={call.state} />
        {call.code && <code class="tag">{call.code}</code>}
        {call.is_task && <span class="tag">task</span>}
      </header>
      <dl class="facts">
        <Fact title="Started">{formatTime(call.started, { fractionalSecondDigits: 3 })}</Fact>
        <Fact title="Duration">{formatDuration(call.duration_ms)}</Fact>
        <Fact title="Client">{call.client_name}</Fact>
        <Fact title="Principal">{call.principal}</Fact>
        <Fact title="Kind">{call.kind}</Fact>
        <Fact title="Result">{call.result_bytes !== null && formatCost(call.result_bytes)}</Fact>
        <Fact title="Id">
          <code>{call.id}</code>
        </Fact>
      </dl>
      {isRunning(call) && <Progress progress={call.progress} label={`Progress of ${call.tool}`} />}
      <CallActions call={call} />
      <div class="row spread above">
        <h3>Arguments</h3>
        <CopyButton text={JSON.stringify(call.arguments, null, 2) ?? ""} />
      </div>
      <Code value={call.arguments ?? {}} label="Arguments" />
      {call.result !== null && call.result !== undefined && <h3>Result</h3>}
      {call.result !== null &&
        call.result !== undefined &&
        (typeof call.result === "string" ? (
          <Code text={call.result} label="Result" />
        ) : (
          <Code value={call.result} label="Result" />
        ))}
      <CallDetails key={call.id} call={call} />
      {call.layers?.length > 0 && (
        <>
          <h3>Layers</h3>
          <ol class="layers">
            {call.layers.map(({ name, ms }, index) => (
              <li key={index}>
                <span>{name}</span>
                <span class="layer-bar" aria-hidden="true">
                  <span style={{ width: `${((ms ?? 0) / slowest) * 100}%` }} />
                </span>
                <span class="mono number muted">{formatDuration(ms)}</span>
              </li>
            ))}
          </ol>
        </>
      )}
    </>
  );
}

function Fact({ title, children }) {
  return children ? (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  ) : null;
}
