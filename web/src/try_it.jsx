/** The form that calls a tool, with its arguments as JSON beside it, and the results of the calls. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { answerRun, cancelRun, listRunProblems, runs, startRun } from "./runs.js";
import { parseJson } from "./numbers.js";
import { LogLines, ResultException } from "./call_details.jsx";
import { CopyCall, formatCost, measureJson } from "./call_actions.jsx";
import { Code, Fold, State, useClock } from "./parts.jsx";
import { createValue } from "./schema.js";
import { findField, SchemaForm } from "./schema_form.jsx";
import { redactSecrets } from "./snippets.js";
import { QuestionForm, SamplingForm } from "./question_form.jsx";
import { ResultView } from "./result_view.jsx";
import { formatDuration, formatTime } from "./format.js";

const drafts = new Map(); // tool name → arguments, kept while other panels are shown

/** Fill the form of a tool with these arguments when it is opened. */
export function setDraft(name, args) {
  drafts.set(name, args);
}

export function TryIt({ tool }) {
  const [value, setOwnValue] = useState(
    () => drafts.get(tool.name) ?? createValue(tool.inputSchema, tool.inputSchema) ?? {},
  );
  const [isJsonValid, setJsonValid] = useState(true);
  const [selected, setSelected] = useState(null);
  const form = useRef(null);
  const list = runs.value.get(tool.name) ?? [];
  const run = list.find(({ id }) => id === selected) ?? list[0];
  const running = run?.ended ? list.find(({ ended }) => !ended) : run;
  const setValue = (next) => {
    drafts.set(tool.name, next);
    setOwnValue(next);
  };
  const submit = (event) => {
    event?.preventDefault();
    if (!isJsonValid) return;
    setSelected(null);
    startRun(tool, value);
  };
  const pressKey = (event) => {
    const isLine = event.target.tagName === "TEXTAREA" && !("multiline" in event.target.dataset) && !event.shiftKey;
    if (event.key !== "Enter" || event.isComposing || !(event.ctrlKey || event.metaKey || isLine)) return;
    event.preventDefault();
    submit();
  };
  const show = (past) => {
    setSelected(past.id);
    setValue(past.arguments);
  };
  const problems = listRunProblems(run);
  return (
    <>
      <form ref={form} class="try" onSubmit={submit} onKeyDown={pressKey} aria-label={`Arguments of ${tool.name}`}>
        <div class="try-fields">
          <SchemaForm schema={tool.inputSchema} value={value} onChange={setValue} problems={problems} />
        </div>
        <JsonEditor value={value} onChange={setValue} onValidity={setJsonValid} />
        <div class="row try-actions">
          <button type="submit" class="primary" disabled={!isJsonValid}>
            Call tool
          </button>
          {running && (
            <button type="button" onClick={() => cancelRun(running.id)}>
              Cancel call
            </button>
          )}
          <button
            type="button"
            class="quiet"
            onClick={() => setValue(createValue(tool.inputSchema, tool.inputSchema) ?? {})}
          >
            Reset
          </button>
          <span class="muted keys">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd>
          </span>
        </div>
      </form>
      {run && <RunView tool={tool} run={run} problems={problems} onFocus={(path) => findField(form.current, path)?.focus()} />}
      {list.length > 1 && <PastRuns list={list} shown={run} onShow={show} />}
    </>
  );
}

/** The arguments as JSON. While the text is not valid JSON, the form keeps the last valid arguments. */
function JsonEditor({ value, onChange, onValidity }) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [problem, setProblem] = useState("");
  const settle = (message) => {
    setProblem(message);
    onValidity(message === "");
  };
  useLayoutEffect(() => {
    let current;
    try {
      current = JSON.stringify(parseJson(text));
    } catch {
      // The form has changed, so its value replaces the text.
    }
    if (current === JSON.stringify(value)) return;
    setText(JSON.stringify(value, null, 2));
    settle("");
  }, [value]);
  const change = (event) => {
    setText(event.target.value);
    try {
      onChange(parseJson(event.target.value));
      settle("");
    } catch (error) {
      settle(error.message);
    }
  };
  return (
    <div class="try-json">
      <label class="field-label" for="json">
        JSON
      </label>
      <textarea
        id="json"
        class="code text"
        data-multiline
        spellcheck={false}
        value={text}
        onInput={change}
        aria-invalid={problem ? "true" : undefined}
        aria-describedby={problem ? "json-problem" : undefined}
      />
      {problem && (
        <div class="problem" id="json-problem">
          Not valid JSON: {problem}
        </div>
      )}
    </div>
  );
}

/** The result of a run, its questions, its log and its messages. `tool` is given if a tool was called. */
export function RunView({ tool, run, problems = [], onFocus }) {
  useClock(200, !run.ended);
  return (
    <section class="run" aria-label="Result" key={run.id}>
      <header class="run-head">
        <State state={run.state} />
        <span class="mono">{formatDuration((run.ended ?? Date.now()) - run.started)}</span>
        {run.result?._meta?.["mcp-bridge/code"] && <code class="tag">{run.result._meta["mcp-bridge/code"]}</code>}
        {run.code && <code class="tag">{run.code}</code>}
        <span class="muted">{formatTime(run.started / 1000)}</span>
      </header>
      {!run.ended && run.state === "running" && <Progress progress={run.progress} label={`Progress of ${run.tool}`} />}
      {Object.keys(run.requests).length > 0 && <Questions key={Object.keys(run.requests).join()} run={run} />}
      {run.problem && (
        <p class="problem" role="alert">
          {run.problem}
        </p>
      )}
      {problems.length > 0 && (
        <ul class="problems" aria-label="Problems of the arguments">
          {problems.map(({ path, text }) => (
            <li key={path + text}>
              <button type="button" class="link" onClick={() => onFocus(path)}>
                <code>{path}</code>
              </button>{" "}
              {text}
            </li>
          ))}
        </ul>
      )}
      {run.result && !problems.length && <ResultView result={run.result} />}
      <ResultException result={run.result} />
      <div class="row">
        {tool && <CopyCall tool={tool} args={run.arguments} result={run.result?.isError ? undefined : run.result?.structuredContent} />}
        {run.result && <span class="muted small">{formatCost(measureJson(run.result))}</span>}
      </div>
      {run.logs.length > 0 && (
        <details>
          <summary>Log of the call ({run.logs.length})</summary>
          <LogLines logs={run.logs} />
        </details>
      )}
      {run.messages.length > 0 && (
        <Fold title={`Messages (${run.messages.length})`}>
          <Messages messages={run.messages} />
        </Fold>
      )}
    </section>
  );
}

/** The messages of a call as they were sent and received, except for secrets in its arguments. */
function Messages({ messages }) {
  return messages.map(({ time, isSent, message }, index) => (
    <div key={index} class="block">
      <span class="muted small">
        {isSent ? "sent" : "received"} {formatTime(time / 1000, { fractionalSecondDigits: 3 })}
      </span>
      <Code value={redactMessage(message)} label={`Message ${index + 1}, ${isSent ? "sent" : "received"}`} />
    </div>
  ));
}

function redactMessage(message) {
  if (!message.params?.arguments) return message;
  return { ...message, params: { ...message.params, arguments: redactSecrets(message.params.arguments) } };
}

export function Progress({ progress, label }) {
  const { progress: done, total, message } = progress ?? {};
  return (
    <div class="progress">
      <progress aria-label={label} {...(total ? { value: done, max: total } : {})} />
      <span class="mono muted">{done !== undefined && (total ? `${done} / ${total}` : done)}</span>
      {message && <span class="clip">{message}</span>}
    </div>
  );
}

/** The questions of one round. The call continues when all are answered. */
export function Questions({ run }) {
  const [responses, setResponses] = useState({});
  const answer = (key, response) => {
    const next = { ...responses, [key]: response };
    setResponses(next);
    if (Object.keys(run.requests).every((each) => each in next)) answerRun(run.id, next);
  };
  return Object.entries(run.requests)
    .filter(([key]) => !(key in responses))
    .map(([key, { method, params }]) =>
      method === "sampling/createMessage" ? (
        <SamplingForm key={key} params={params} onAnswer={(response) => answer(key, response)} />
      ) : (
        <QuestionForm
          key={key}
          question={{ message: params.message, schema: params.requestedSchema, url: params.url }}
          onAnswer={(response) => answer(key, response)}
        />
      ),
    );
}

function PastRuns({ list, shown, onShow }) {
  return (
    <section aria-label="Calls made here">
      <h3>Calls made here</h3>
      <ul class="past">
        {list.map((run) => (
          <li key={run.id}>
            <button
              type="button"
              class="past-run"
              aria-current={run === shown ? "true" : undefined}
              onClick={() => onShow(run)}
            >
              <State state={run.state} />
              <span class="mono muted">{formatTime(run.started / 1000)}</span>
              <span class="mono">{run.ended ? formatDuration(run.ended - run.started) : ""}</span>
              <span class="mono clip">{JSON.stringify(run.arguments)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
