/** Questions of calls: a form, a choice or a link that the user opens (elicitation), or one to the model (sampling). */
import { useState } from "preact/hooks";
import { escapeInvisible } from "./format.js";
import { createValue, getKind, resolveSchema } from "./schema.js";
import { ActionButton, Code } from "./parts.jsx";
import { Block } from "./result_view.jsx";
import { SafeLink } from "./safe_link.jsx";
import { SchemaForm } from "./schema_form.jsx";

const MAX_BUTTONS = 6;

/**
 * `question` has `message`, and `schema` or `url`. `onAnswer` receives {action, content} and may return a promise.
 */
export function QuestionForm({ question, onAnswer }) {
  const { message, schema, url } = question;
  const choice = schema && findChoice(schema);
  return (
    <div class="question">
      <p class="question-text">{escapeInvisible(message)}</p>
      {url ? (
        <LinkAnswer url={url} onAnswer={onAnswer} />
      ) : choice ? (
        <ChoiceAnswer choice={choice} onAnswer={onAnswer} />
      ) : isPlainQuestion(schema) ? (
        <YesOrNo onAnswer={onAnswer} />
      ) : (
        <FormAnswer schema={schema} onAnswer={onAnswer} />
      )}
    </div>
  );
}

function FormAnswer({ schema, onAnswer }) {
  const [value, setValue] = useState(() => createValue(schema, schema) ?? {});
  return (
    <form onSubmit={(event) => event.preventDefault()}>
      <SchemaForm schema={schema} value={value} onChange={setValue} />
      <div class="row">
        <ActionButton class="primary" action={() => onAnswer({ action: "accept", content: value })}>
          Answer
        </ActionButton>
        <Rejections onAnswer={onAnswer} />
      </div>
    </form>
  );
}

function ChoiceAnswer({ choice, onAnswer }) {
  return (
    <div class="row">
      {choice.options.map(([title, value]) => (
        <ActionButton key={title} action={() => onAnswer({ action: "accept", content: { [choice.name]: value } })}>
          {title}
        </ActionButton>
      ))}
      {!choice.isWhole && <Rejections onAnswer={onAnswer} />}
    </div>
  );
}

/** The answers to a question without a form: it is accepted or declined. */
function YesOrNo({ onAnswer }) {
  return (
    <div class="row">
      <ActionButton class="primary" action={() => onAnswer({ action: "accept", content: {} })}>
        Yes
      </ActionButton>
      <ActionButton action={() => onAnswer({ action: "decline" })}>No</ActionButton>
    </div>
  );
}

function isPlainQuestion(schema) {
  return !Object.keys(schema?.properties ?? {}).length && !schema?.additionalProperties;
}

/** A request to the model of the client (sampling), which the user answers in its place. */
export function SamplingForm({ params, onAnswer }) {
  const [text, setText] = useState("");
  const { systemPrompt, messages = [], maxTokens } = params;
  const answer = () =>
    onAnswer({ role: "assistant", content: { type: "text", text }, model: "user of the page", stopReason: "endTurn" });
  return (
    <div class="question">
      <p class="question-text">The call asks the model of its client. Answer in its place.</p>
      {systemPrompt && <Code text={systemPrompt} label="System prompt" />}
      {messages.map(({ role, content }, index) => (
        <section key={index} aria-label={`Message of the ${role}`}>
          <p class="muted small">{role}</p>
          {[content].flat().map((block, place) => (
            <Block key={place} block={block} />
          ))}
        </section>
      ))}
      <label class="field-label">
        Answer of the model
        {maxTokens && <span class="muted small"> at most {maxTokens} tokens</span>}
        <textarea class="text" data-multiline rows="3" value={text} onInput={(event) => setText(event.target.value)} />
      </label>
      <div class="row">
        <ActionButton class="primary" disabled={!text} action={answer}>
          Answer
        </ActionButton>
      </div>
    </div>
  );
}

function LinkAnswer({ url, onAnswer }) {
  return (
    <>
      <p>
        <SafeLink uri={url}>{escapeInvisible(url)}</SafeLink>
      </p>
      <div class="row">
        <ActionButton class="primary" action={() => onAnswer({ action: "accept" })}>
          Done
        </ActionButton>
        <Rejections onAnswer={onAnswer} />
      </div>
    </>
  );
}

function Rejections({ onAnswer }) {
  return (
    <>
      <ActionButton class="quiet" action={() => onAnswer({ action: "decline" })}>
        Decline
      </ActionButton>
      <ActionButton class="quiet" action={() => onAnswer({ action: "cancel" })}>
        Dismiss
      </ActionButton>
    </>
  );
}

/** Return the one property of a form that is a choice of few values, which needs only buttons. */
function findChoice(schema) {
  const [entry, ...others] = Object.entries(schema.properties ?? {});
  if (!entry || others.length) return null;
  const [name, property] = entry;
  const resolved = resolveSchema(property, schema);
  if (getKind(resolved) === "boolean") {
    return {
      name,
      isWhole: true, // yes and no are all that can be meant
      options: [
        ["Yes", true],
        ["No", false],
      ],
    };
  }
  const titled =
    (resolved.oneOf ?? resolved.anyOf)?.every((part) => "const" in part) &&
    (resolved.oneOf ?? resolved.anyOf).map((part) => [part.title ?? String(part.const), part.const]);
  const options =
    titled ||
    (getKind(resolved) === "enum" &&
      resolved.enum.map((value, index) => [resolved.enumNames?.[index] ?? String(value), value]));
  return options && options.length <= MAX_BUTTONS ? { name, options } : null;
}
