/** Inbox: the approvals and questions that wait for the user. */
import { useEffect, useState } from "preact/hooks";
import { requestJson } from "../api.js";
import { askingRuns, otherQuestions } from "../runs.js";
import { can, questions } from "../store.js";
import { Code, ActionButton, Empty, announce } from "../parts.jsx";
import { formatAddress } from "../route.js";
import { escapeInvisible, formatTime } from "../format.js";
import { QuestionForm } from "../question_form.jsx";
import { Questions } from "../try_it.jsx";

const READING_TIME = 500; // ms, as in `mcp-bridge approvals`
const FORBIDDEN =
  "You cannot answer here, because this server requires no token. Set http.token_env in its settings.";
const TITLES = {
  once: "Allow once",
  session: "Allow for this session (same arguments)",
  always: "Allow always (same arguments)",
  deny: "Deny",
};

export function InboxPanel() {
  const own = askingRuns.value;
  const others = otherQuestions.value;
  if (!others.length && !own.length)
    return (
      <Empty title="Nothing waits for you.">Approvals and questions of calls appear here while the call waits.</Empty>
    );
  return (
    <ul class="cards">
      {own.map((run) => (
        <li key={`run-${run.id}`} class="card">
          <CardHead panel={`${run.kind}s`} tool={run.tool} client="this page" since={run.started / 1000} />
          <Questions key={Object.keys(run.requests).join()} run={run} />
        </li>
      ))}
      {others.map((question, index) => (
        <li key={question.id} class="card">
          <CardHead
            tool={question.tool}
            client={question.client}
            principal={question.principal}
            since={question.since}
          />
          {question.kind === "approval" ? (
            <Approval question={question} place={`${own.length} ${others.slice(0, index).map(({ id }) => id)}`} />
          ) : (
            <Question question={question} />
          )}
        </li>
      ))}
    </ul>
  );
}

function CardHead({ panel = "tools", tool, client, principal, since }) {
  return (
    <header class="item-head">
      <h2>
        <a class="mono" href={formatAddress(panel, tool)}>
          {tool}
        </a>
      </h2>
      <span class="muted">
        {[client && `called by ${client}`, principal && `as ${principal}`].filter(Boolean).join(" ")}
      </span>
      <span class="muted mono push">{formatTime(since)}</span>
    </header>
  );
}

/** `place` changes when the question moves, so that a click that was meant for another one answers nothing. */
function Approval({ question, place }) {
  const { id, message, choices, labels = {} } = question;
  const [readablePlace, setReadablePlace] = useState(null);
  useEffect(() => {
    const timer = setTimeout(() => setReadablePlace(place), READING_TIME);
    return () => clearTimeout(timer);
  }, [place]);
  return (
    <>
      <p class="question-text">{escapeInvisible(message)}</p>
      <Arguments question={question} />
      {can.value.approve ? (
        <div class="row choices">
          {choices.map((choice) => (
            <ActionButton
              key={choice}
              class={choice === "deny" ? "danger push" : ""}
              disabled={readablePlace !== place}
              action={() => answer(id, { choice }, choice === "deny" ? "Denied" : "Allowed")}
            >
              {labels[choice] ?? TITLES[choice] ?? choice}
            </ActionButton>
          ))}
        </div>
      ) : (
        <p class="muted">{FORBIDDEN}</p>
      )}
    </>
  );
}

function Question({ question }) {
  return (
    <>
      <Arguments question={question} />
      {can.value.answer ? (
        <QuestionForm question={question} onAnswer={(response) => answer(question.id, response, "Answered")} />
      ) : (
        <>
          <p class="question-text">{escapeInvisible(question.message)}</p>
          <p class="muted">{FORBIDDEN}</p>
        </>
      )}
    </>
  );
}

function Arguments({ question: { arguments: given } }) {
  return (
    given !== null &&
    given !== undefined && (
      <Code
        value={typeof given === "string" ? undefined : given}
        text={typeof given === "string" ? given : undefined}
        label="Arguments of the call"
      />
    )
  );
}

async function answer(id, body, text) {
  await requestJson(`page/questions/${encodeURIComponent(id)}`, body);
  questions.value = questions.value.filter((question) => question.id !== id);
  announce(text);
}
