/** Questions of calls (elicitation): a form, a choice, or a link that the user opens. */
import { useState } from "preact/hooks";
import { escapeInvisible } from "./format.js";
import { createValue, getKind, resolveSchema } from "./schema.js";
import { ActionButton } from "./parts.jsx";
import { SafeLink } from "./result_view.jsx";
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
      <Rejections onAnswer={onAnswer} />
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
  const titled =
    (resolved.oneOf ?? resolved.anyOf)?.every((part) => "const" in part) &&
    (resolved.oneOf ?? resolved.anyOf).map((part) => [part.title ?? String(part.const), part.const]);
  const options =
    titled ||
    (getKind(resolved) === "enum" &&
      resolved.enum.map((value, index) => [resolved.enumNames?.[index] ?? String(value), value]));
  return options && options.length <= MAX_BUTTONS ? { name, options } : null;
}
