/** The calls that the user makes on this page. They go on while other panels are shown. */
import { computed, signal } from "@preact/signals";
import { callTool } from "./mcp.js";
import { listProblems } from "./schema.js";
import { announce } from "./parts.jsx";
import { questions } from "./store.js";

const MAX_RUNS = 20; // per tool
const MAX_LOGS = 200;
const MAX_MESSAGES = 200;

/** Tool name → runs, newest first. A run is replaced by a changed copy, never changed. */
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

/** Call a tool. The returned run is updated in `runs` until it has ended. */
export async function startRun(tool, args) {
  const id = ++lastNumber;
  const controller = new AbortController();
  controllers.set(id, controller);
  const run = {
    id,
    tool: tool.name,
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
  setRuns(tool.name, [run, ...(runs.value.get(tool.name) ?? [])].slice(0, MAX_RUNS));
  try {
    const result = await callTool(tool, args, {
      signal: controller.signal,
      onNotification: (message) => readNotification(tool.name, id, message),
      onMessage: (message, isSent) => addMessage(tool.name, id, { time: Date.now(), isSent, message }),
      askUser: (requests) => askUser(tool.name, id, requests, controller.signal),
    });
    finish(tool.name, id, result.isError ? "error" : "ok", { result });
  } catch (error) {
    if (controller.signal.aborted) finish(tool.name, id, "cancelled", {});
    else finish(tool.name, id, "error", { problem: error.message, code: error.code });
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

function update(name, id, change) {
  const list = runs.value.get(name) ?? [];
  setRuns(
    name,
    list.map((run) => (run.id === id ? { ...run, ...change(run) } : run)),
  );
}

function setRuns(name, list) {
  runs.value = new Map(runs.value).set(name, list);
}

function finish(name, id, state, change) {
  update(name, id, () => ({ ...change, state, ended: Date.now(), requests: {} }));
  announce(
    `${name}: ${{ ok: "the call succeeded", error: "the call failed", cancelled: "the call was cancelled" }[state]}`,
  );
}

function readNotification(name, id, { method, params }) {
  if (method === "notifications/progress") update(name, id, () => ({ progress: params }));
  if (method === "notifications/message")
    update(name, id, ({ logs }) => ({ logs: [...logs, params].slice(-MAX_LOGS) }));
}

function addMessage(name, id, message) {
  update(name, id, ({ messages }) => ({ messages: [...messages, message].slice(-MAX_MESSAGES) }));
}

function askUser(name, id, requests, signal) {
  if (!Object.keys(requests).length) return {};
  update(name, id, () => ({ state: "asking", requests }));
  announce(`${name}: the call asks a question`);
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    answers.set(id, (responses) => {
      update(name, id, () => ({ state: "running", requests: {} }));
      resolve(responses);
    });
  });
}
