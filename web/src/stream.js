/** The connection to the events of the server, which is opened again whenever it breaks. */
import { signal } from "@preact/signals";
import { readError, readEvents, requestJson, send, tokenProblem } from "./api.js";
import { parseJson } from "./numbers.js";
import { applyEvent, applyState, loadEntries } from "./store.js";

const FIRST_WAIT = 500; // ms, doubled up to LONGEST_WAIT
const LONGEST_WAIT = 5_000;
const REREAD_AFTER = 300; // ms: many events cause one reading of the state
const REREAD_UNDER_LOAD = 2_000; // ms

const REPEATABLE = new Set(["call", "question", "answered", "decision", "source"]);

/** "connecting" at first, then "open" or "lost". */
export const connection = signal("connecting");
/** Why the server rejects the connection, "" if it does not respond. */
export const rejection = signal("");

let lastId = null;
let rereading = null;
const readings = new Set(); // for each state that is being read, the events since it was requested

/** Follow the events until the page is closed. Waits while the token is not valid. */
export async function followEvents() {
  let wait = FIRST_WAIT;
  for (;;) {
    try {
      await readOnce(() => (wait = FIRST_WAIT));
    } catch (error) {
      if (error.status === 401) {
        await waitForToken();
        wait = FIRST_WAIT;
        continue;
      }
      rejection.value = error.status ? error.message : "";
    }
    if (connection.value === "open" || rejection.value || wait > FIRST_WAIT) connection.value = "lost";
    await waitOrOnline(wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

async function readOnce(onOpen) {
  const controller = new AbortController();
  try {
    await readStream(controller.signal, onOpen);
  } finally {
    controller.abort(); // a stream that is left open takes one of the few connections that a browser has
  }
}

async function readStream(signal, onOpen) {
  const headers = { Accept: "text/event-stream", ...(lastId === null ? {} : { "Last-Event-ID": lastId }) };
  const response = await send("page/events", { headers, signal });
  if (!response.ok) throw await readError(response);
  // The stream is open before the state is read, and its events are read afterwards, so none is missed.
  await Promise.all([readState(), loadEntries()]);
  connection.value = "open";
  rejection.value = "";
  onOpen();
  let isFirst = true;
  for await (const { id, event, data } of readEvents(response)) {
    if (id !== null) lastId = id;
    const change = [event, parseJson(data)];
    for (const changes of readings) changes.push(change);
    const isStale = applyEvent(...change);
    // A stream that cannot be resumed begins with `reset`, but its state has just been read.
    if (isStale && !(isFirst && event === "reset"))
      rereading ??= setTimeout(rereadState, event === "dropped" ? REREAD_UNDER_LOAD : REREAD_AFTER);
    isFirst = false;
  }
}

/** Read the state, and apply again what has changed since the server may have written it. */
export async function readState() {
  const changes = [];
  readings.add(changes);
  try {
    applyState(await requestJson("page/state"));
    for (const [event, data] of changes) if (REPEATABLE.has(event)) applyEvent(event, data);
  } finally {
    readings.delete(changes);
  }
}

async function rereadState() {
  rereading = null; // an event that arrives during the reading causes another one
  try {
    await readState();
  } catch {
    // The stream breaks too, and its next connection reads the state.
  }
}

function waitForToken() {
  return new Promise((resolve) => {
    const stop = tokenProblem.subscribe((problem) => problem || setTimeout(() => (stop(), resolve())));
  });
}

function waitOrOnline(time) {
  return new Promise((resolve) => {
    setTimeout(resolve, time);
    addEventListener("online", resolve, { once: true });
  });
}
