/** The duration of each call of a tool over time, as a chart. */
import { computed } from "@preact/signals";
import { useState } from "preact/hooks";
import { calls, latency } from "./store.js";
import { Empty, useWidth } from "./parts.jsx";
import { formatCount, formatDuration, formatTime, getPercentile } from "./format.js";

const MAX_POINTS = 400;
const MAX_WIDTH = 860;
const HEIGHT = 220;
const LEFT = 64;
const BOTTOM = 24;
const TOP = 10;
const STEPS = [1, 2, 5];

/** The calls that have ended, by tool, oldest first. Computed only while a chart is shown. */
const endedByTool = computed(() => {
  const byTool = new Map();
  for (const call of calls.value) {
    if (call.duration_ms === null || call.duration_ms === undefined) continue;
    if (!byTool.has(call.tool)) byTool.set(call.tool, []);
    byTool.get(call.tool).push(call);
  }
  for (const list of byTool.values()) list.reverse();
  return byTool;
});

/** Return {points, count, errors, p50, p95} of a tool. Older points are those that the server counted before. */
export function getLatency(tool) {
  const recorded = latency.value[tool];
  const own = endedByTool.value.get(tool) ?? [];
  const first = own[0]?.started ?? Infinity;
  const older = (recorded?.series ?? [])
    .filter(([time]) => time < first)
    .map(([time, ms]) => ({ time, ms, state: "ok" }));
  const points = [...older, ...own.map((call) => ({ time: call.started, ms: call.duration_ms, state: call.state }))];
  const sorted = points.map(({ ms }) => ms).sort((a, b) => a - b);
  const errors = own.filter(({ state }) => state === "error").length;
  return {
    points: points.slice(-MAX_POINTS),
    count: Math.max(points.length, recorded?.count ?? 0),
    errors: Math.max(errors, recorded?.errors ?? 0),
    p50: getPercentile(sorted, 0.5),
    p95: getPercentile(sorted, 0.95),
  };
}

export function listMeasuredTools() {
  return [...new Set([...endedByTool.value.keys(), ...Object.keys(latency.value)])].sort();
}

export function Latency({ tool }) {
  const measured = getLatency(tool);
  if (!measured.points.length) return <Empty title={`No call of “${tool}” has ended yet.`} />;
  return (
    <>
      <Figures measured={measured} />
      <Chart measured={measured} tool={tool} />
    </>
  );
}

function Figures({ measured: { count, errors, p50, p95 } }) {
  return (
    <dl class="figures">
      <div>
        <dt>Calls</dt>
        <dd>{count.toLocaleString("en")}</dd>
      </div>
      <div>
        <dt>Errors</dt>
        <dd>{errors.toLocaleString("en")}</dd>
      </div>
      <div>
        <dt>Median</dt>
        <dd>{formatDuration(p50)}</dd>
      </div>
      <div>
        <dt>95th percentile</dt>
        <dd>{formatDuration(p95)}</dd>
      </div>
    </dl>
  );
}

/** A point per call. Drawn as SVG, so that it follows the colours of the page. */
function Chart({ measured: { points, count, p50, p95 }, tool }) {
  const [pointed, setPointed] = useState(null);
  const [figure, available] = useWidth();
  const width = Math.min(available || MAX_WIDTH, MAX_WIDTH);
  const start = points[0].time;
  const span = Math.max(points.at(-1).time - start, 1);
  const ticks = listTicks(Math.max(...points.map(({ ms }) => ms), 0.1));
  const top = ticks.at(-1);
  const toX = (time) => LEFT + ((time - start) / span) * (width - LEFT - 10);
  const toY = (ms) => HEIGHT - BOTTOM - (ms / top) * (HEIGHT - BOTTOM - TOP);
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const x = event.clientX - box.left;
    setPointed(
      points.reduce((best, each) => (Math.abs(toX(each.time) - x) < Math.abs(toX(best.time) - x) ? each : best)),
    );
  };
  const label = `Durations of ${formatCount(count, "call")} of ${tool}: median ${formatDuration(p50)}, 95th percentile ${formatDuration(p95)}`;
  return (
    <figure class="chart" ref={figure}>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={label}
        onPointerMove={point}
        onPointerLeave={() => setPointed(null)}
      >
        {ticks.map((ms) => (
          <g key={ms}>
            <line class="chart-grid" x1={LEFT} x2={width} y1={toY(ms)} y2={toY(ms)} />
            <text class="chart-text" x={LEFT - 8} y={toY(ms) + 4} text-anchor="end">
              {ms === 0 ? "0" : formatDuration(ms)}
            </text>
          </g>
        ))}
        <text class="chart-text" x={LEFT} y={HEIGHT - 6}>
          {formatTime(start)}
        </text>
        <text class="chart-text" x={width - 4} y={HEIGHT - 6} text-anchor="end">
          {formatTime(points.at(-1).time)}
        </text>
        <line class="chart-p95" x1={LEFT} x2={width} y1={toY(p95)} y2={toY(p95)} />
        {points.map(({ time, ms, state }, index) => (
          <circle key={index} class={`chart-point state-${state}`} cx={toX(time)} cy={toY(ms)} r="2.5" />
        ))}
        {pointed && <circle class="chart-pointed" cx={toX(pointed.time)} cy={toY(pointed.ms)} r="5" />}
      </svg>
      <figcaption class="muted">
        {pointed
          ? `${formatTime(pointed.time)} · ${formatDuration(pointed.ms)} · ${pointed.state}`
          : `Each point is a call${count > points.length ? ` (the last ${points.length})` : ""}. The dashed line is the 95th percentile.`}
      </figcaption>
    </figure>
  );
}

/** Return about four round values from 0 to at least `max`. */
function listTicks(max) {
  const power = 10 ** Math.floor(Math.log10(max / 4));
  const step = power * (STEPS.find((each) => each * power >= max / 4) ?? 10);
  return Array.from({ length: Math.ceil(max / step) + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}
