/** Resources and prompts: their lists, and for one of them its arguments, with suggestions, and its result. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { EntryPanel } from "../entry_list.jsx";
import { formatSize } from "../format.js";
import { completeArgument } from "../mcp.js";
import { Markdown } from "../markdown.jsx";
import { getKey, runs, startRun } from "../runs.js";
import { prompts, resources, templates } from "../store.js";
import { RunView } from "../try_it.jsx";
import { expandTemplate, listVariables } from "../uri_template.js";

const SUGGEST_AFTER = 150; // ms without a key

export function ResourcesPanel() {
  const entries = [
    ...resources.value.map((resource) => ({ ...resource, id: resource.uri })),
    ...templates.value.map((template) => ({ ...template, id: template.uriTemplate })),
  ];
  return <EntryPanel panel="resources" noun="resource" entries={entries} view={Resource} />;
}

export function PromptsPanel() {
  const entries = prompts.value.map((prompt) => ({ ...prompt, id: prompt.name }));
  return <EntryPanel panel="prompts" noun="prompt" entries={entries} view={Prompt} />;
}

function Resource({ entry }) {
  const { uri, uriTemplate, mimeType, size } = entry;
  return (
    <>
      <EntryHead entry={entry}>
        <code class="muted">{uri ?? uriTemplate}</code>
        {mimeType && <span class="tag">{mimeType}</span>}
        {size !== undefined && <span class="tag">{formatSize(size)}</span>}
      </EntryHead>
      <ArgumentForm
        kind="resource"
        id={entry.id}
        action="Read"
        fields={uriTemplate ? listVariables(uriTemplate) : []}
        reference={{ type: "ref/resource", uri: uriTemplate }}
        getName={(values) => uri ?? expandTemplate(uriTemplate, values)}
      />
    </>
  );
}

function Prompt({ entry }) {
  return (
    <>
      <EntryHead entry={entry} />
      <ArgumentForm
        kind="prompt"
        id={entry.id}
        action="Get prompt"
        fields={entry.arguments ?? []}
        reference={{ type: "ref/prompt", name: entry.name }}
        getName={() => entry.name}
      />
    </>
  );
}

function EntryHead({ entry: { name, title, description }, children }) {
  return (
    <>
      <header class="item-head">
        <h2 class="mono">{name}</h2>
        {title && title !== name && <span>{title}</span>}
        {children}
      </header>
      {description && <Markdown text={description} />}
    </>
  );
}

function ArgumentForm({ kind, id, action, fields, reference, getName }) {
  const [values, setValues] = useState({});
  const key = getKey({ kind, id });
  const run = runs.value.get(key)?.[0];
  const name = getName(values);
  const submit = (event) => {
    event.preventDefault();
    const given = Object.entries(values).filter(([, value]) => value !== "");
    startRun({ kind, id, name }, Object.fromEntries(given));
  };
  return (
    <>
      <form class="fields pad-top" onSubmit={submit} aria-label={`Arguments of ${id}`}>
        {fields.map((field) => (
          <ArgumentField
            key={field.name}
            field={field}
            value={values[field.name] ?? ""}
            onChange={(value) => setValues({ ...values, [field.name]: value })}
            suggest={(text) => completeArgument(reference, field.name, text, values)}
          />
        ))}
        {kind === "resource" && fields.length > 0 && (
          <p class="muted">
            <code>{name}</code>
          </p>
        )}
        <div class="row">
          <button type="submit" class="primary">
            {action}
          </button>
        </div>
      </form>
      {run && <RunView run={run} />}
    </>
  );
}

/** A text field, with the values that the server suggests for what is typed. */
function ArgumentField({ field: { name, title, description, required }, value, onChange, suggest }) {
  const id = useId();
  const [options, setOptions] = useState([]);
  const [isFocused, setFocused] = useState(false);
  const latest = useRef(0);
  useEffect(() => {
    if (!isFocused) return undefined;
    const number = ++latest.current; // an earlier request may end later
    const timer = setTimeout(async () => {
      const found = await suggest(value);
      if (number === latest.current) setOptions(found);
    }, SUGGEST_AFTER);
    return () => clearTimeout(timer);
  }, [value, isFocused]);
  return (
    <div class="field">
      <div class="field-head">
        <label class="field-label" for={id}>
          {title ?? name}
          {required && <span class="required"> *</span>}
        </label>
      </div>
      {description && <p class="field-text">{description}</p>}
      <input
        id={id}
        value={value}
        list={`${id}-options`}
        autocomplete="off"
        required={required}
        onFocus={() => setFocused(true)}
        onBlur={() => setFocused(false)}
        onInput={(event) => onChange(event.target.value)}
      />
      <datalist id={`${id}-options`}>
        {options.map((option) => (
          <option key={option} value={option} />
        ))}
      </datalist>
    </div>
  );
}
