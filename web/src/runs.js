/** The calls that the user makes on this page. They go on while other panels are shown. */
import { computed, signal } from "@preact/signals";
import { callEntry } from "./mcp.js";
import { listProblems } from "./schema.js";
import { announce } from "./parts.jsx";
import { questions } from "./store.js";

const MAX_RUNS = 20; // per tool
const MAX_LOGS = 200;
const MAX_MESSAGES = 200;

/** The key of an entry → runs, newest first. A run is replaced by a changed copy, never changed. */
export const runs = signal(new Map());
/** The rounds of questions of these calls that wait for the user. */
export const askingRuns = computed(() =>
  [...runs.value.values()]
    .flat()
    .filter(({ state }) => state === "asking"),
);

/** The questions at the server without those of this page's own calls, which are in `askingRuns`. */
export const otherQuestions = computed(() => {
  const others = [...questions.value];
  for (const run of askingRuns.value)
    for (const { params } of Object.values(run.requests)) {
      const own = others.findIndex(({ tool, message }) => tool === run.tool && params.message?.includes(message));
      if (own >= 0) others.splice(own, 1); // an equal question of another client stays
    }
  return others;
});

let lastNumber = 0;
const controllers = new Map();
const answers = new Map();

/** Return the key of the runs of a tool, or of another entry with a `kind` and an `id`. */
export function getKey({ kind = "tool", name, id }) {
  return kind === "tool" ? name : `${kind}\0${id}`;
}

/** Call a tool, or read a resource or get a prompt. The run is updated in `runs` until it has ended. */
export async function startRun(entry, args) {
  const key = getKey(entry);
  const id = ++lastNumber;
  const controller = new AbortController();
  controllers.set(id, controller);
  const run = {
    id,
    key,
    kind: entry.kind ?? "tool",
    tool: entry.name,
    arguments: args,
    started: Date.now(),
    state: "running",
    progress: null,
    logs: [],
    messages: [],
    requests: {},
    result: null,
    problem: "",
  };
  setRuns(key, [run, ...(runs.value.get(key) ?? [])].slice(0, MAX_RUNS));
  try {
    const result = await callEntry(entry, args, {
      signal: controller.signal,
      onNotification: (message) => readNotification(run, message),
      onMessage: (message, isSent) => addMessage(run, { time: Date.now(), isSent, message }),
      askUser: (requests) => askUser(run, requests, controller.signal),
    });
    finish(run, result.isError ? "error" : "ok", { result });
  } catch (error) {
    if (controller.signal.aborted) finish(run, "cancelled", {});
    else finish(run, "error", { problem: error.message, code: error.code });
  } finally {
    controllers.delete(id);
    answers.delete(id);
  }
}

export function cancelRun(id) {
  controllers.get(id)?.abort();
}

/** Answer the questions of a round: `responses` has a result of elicitation per key. */
export function answerRun(id, responses) {
  answers.get(id)?.(responses);
}

/** Return the problems that the server found in the arguments of a run. */
export function listRunProblems(run) {
  const text = run?.result?.isError ? run.result.content?.find(({ type }) => type === "text")?.text : "";
  return listProblems(text ?? "");
}

function update({ key, id }, change) {
  const list = runs.value.get(key) ?? [];
  setRuns(
    key,
    list.map((other) => (other.id === id ? { ...other, ...change(other) } : other)),
  );
}

function setRuns(key, list) {
  runs.value = new Map(runs.value).set(key, list);
}

function finish(run, state, change) {
  update(run, () => ({ ...change, state, ended: Date.now(), requests: {} }));
  announce(
    `${run.tool}: ${{ ok: "the call succeeded", error: "the call failed", cancelled: "the call was cancelled" }[state]}`,
  );
}

function readNotification(run, { method, params }) {
  if (method === "notifications/progress") update(run, () => ({ progress: params }));
  if (method === "notifications/message")
    update(run, ({ logs }) => ({ logs: [...logs, params].slice(-MAX_LOGS) }));
}

function addMessage(run, message) {
  update(run, ({ messages }) => ({ messages: [...messages, message].slice(-MAX_MESSAGES) }));
}

function askUser(run, requests, signal) {
  if (!Object.keys(requests).length) return {};
  update(run, () => ({ state: "asking", requests }));
  announce(`${run.tool}: the call asks a question`);
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    answers.set(run.id, (responses) => {
      update(run, () => ({ state: "running", requests: {} }));
      resolve(responses);
    });
  });
}
