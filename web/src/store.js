/** What the page knows of the server, as signals: the snapshot of its state, changed by its events. */
import { batch, computed, signal } from "@preact/signals";
import { listEntries } from "./mcp.js";

const MAX_CALLS = 10_000;
const MAX_CHARACTERS = 40_000_000;
const FLUSH_EVERY = 100; // ms; each flush renders the visible rows once

export const server = signal(null);
export const sources = signal([]);
export const clients = signal([]);
export const questions = signal([]);
export const decisions = signal([]);
export const quarantine = signal([]);
export const settings = signal(null);
export const lint = signal([]);
export const latency = signal({});
export const installs = signal([]);
export const can = signal({});
/** Tool name → source, for operators. */
export const owners = signal({});
export const hasAudit = signal(false);
export const tools = signal(null);
export const toolsProblem = signal("");
export const resources = signal([]);
export const templates = signal([]);
export const prompts = signal([]);
export const dropped = signal(0);
/** The calls, newest first, and how many of them run. */
export const calls = signal([]);
export const runningCount = computed(() => calls.value.reduce((count, call) => count + isRunning(call), 0));

/** Whether a call has not ended. It may wait for an answer of a user. */
export function isRunning({ state }) {
  return state === "running" || state === "asking";
}

const LISTS = { sources, clients, questions, decisions, quarantine, lint, installs };

const LIST_METHODS = [
  ["tools/list", "tools", tools],
  ["resources/list", "resources", resources],
  ["resources/templates/list", "resourceTemplates", templates],
  ["prompts/list", "prompts", prompts],
];

const records = new Map(); // id → call record, oldest first
const sizes = new Map();
let characters = 0;
let changed = new Map();
let timer = null;

/** Replace everything by a snapshot. Calls that the snapshot no longer contains are kept, unless the server is another process. */
export function applyState(state) {
  batch(() => {
    const before = server.value;
    if (before && (before.pid !== state.server.pid || state.server.uptime_s < before.uptime_s)) clearCalls();
    else forgetEndedCalls(state.calls ?? []);
    server.value = state.server;
    for (const [name, list] of Object.entries(LISTS)) list.value = state[name] ?? [];
    settings.value = state.settings ?? null;
    latency.value = state.latency ?? {};
    can.value = state.can ?? {};
    owners.value = state.owners ?? {};
    hasAudit.value = Boolean(state.audit);
    for (const call of [...(state.calls ?? [])].sort((a, b) => a.started - b.started)) changed.set(call.id, call);
    flushCalls();
  });
}

/** Apply an event. Returns whether the state has to be read again. */
export function applyEvent(name, data) {
  if (name === "call") return queueCall(data);
  else if (name === "question") questions.value = [...questions.value.filter(({ id }) => id !== data.id), data];
  else if (name === "answered") questions.value = questions.value.filter(({ id }) => id !== data.id);
  else if (name === "decision") decisions.value = [data, ...decisions.value.filter(({ time }) => time !== data.time)].slice(0, 200);
  else if (name === "source") sources.value = replaceBy("name", sources.value, data);
  else if (name === "dropped") dropped.value += data.n ?? 0;
  else if (name === "tools") loadEntries();
  // Others change what only a snapshot contains, such as the differences of quarantined tools.
  return ["reset", "dropped", "answered", "client", "quarantine", "tools"].includes(name);
}

/** Read the lists of tools, resources and prompts. */
export async function loadEntries() {
  try {
    const lists = await Promise.all(LIST_METHODS.map(([method, member]) => listEntries(method, member)));
    batch(() => {
      LIST_METHODS.forEach(([, , list], index) => (list.value = lists[index]));
      toolsProblem.value = "";
    });
  } catch (error) {
    toolsProblem.value = error.message;
  }
}

function replaceBy(key, list, item) {
  const index = list.findIndex((other) => other[key] === item[key]);
  return index < 0 ? [...list, item] : list.with(index, { ...list[index], ...item });
}

/** A snapshot lists all running calls. The end of any other one was left out of the events under load. */
function forgetEndedCalls(list) {
  const listed = new Set(list.map(({ id }) => id));
  for (const [id, record] of records) if (isRunning(record) && !listed.has(id)) forgetCall(id);
}

function forgetCall(id) {
  characters -= sizes.get(id);
  sizes.delete(id);
  records.delete(id);
}

/** Add a call soon. Returns whether its client is new, so that only a snapshot describes it. */
function queueCall(record) {
  changed.set(record.id, record);
  timer ??= setTimeout(flushCalls, FLUSH_EVERY);
  return !clients.value.some(({ id }) => id === record.client);
}

function flushCalls() {
  clearTimeout(timer);
  timer = null;
  for (const [id, record] of changed) {
    const known = records.get(id);
    if (known && !isRunning(known) && isRunning(record)) continue;
    const size = JSON.stringify(record).length;
    characters += size - (sizes.get(id) ?? 0);
    sizes.set(id, size);
    records.set(id, record);
  }
  changed = new Map();
  for (const id of records.keys()) {
    if (records.size <= MAX_CALLS && characters <= MAX_CHARACTERS) break;
    forgetCall(id);
  }
  calls.value = [...records.values()].reverse();
}

function clearCalls() {
  records.clear();
  sizes.clear();
  changed.clear();
  characters = 0;
}
