/** Tools: the list, and for one tool the form to call it, its schema and its latency. */
import { computed, signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import { formatCost, measureJson } from "../call_actions.jsx";
import { formatAddress, route } from "../route.js";
import { Code, Empty, Tabs } from "../parts.jsx";
import { describeType, listAlternatives, resolveSchema } from "../schema.js";
import { tools, toolsProblem } from "../store.js";
import { Latency } from "../latency.jsx";
import { TryIt } from "../try_it.jsx";

const TABS = [
  ["try", "Try it"],
  ["schema", "Schema"],
  ["latency", "Latency"],
];
const search = signal("");
const tab = signal("try");
const MAX_DEPTH = 6;
const listBytes = computed(() => measureJson(tools.value));

export function ToolsPanel() {
  const list = tools.value;
  if (list === null) return <Empty title={toolsProblem.value || "Loading the tools…"} />;
  if (!list.length)
    return <Empty title="This server has no tools.">If a source has failed, the Sources panel says why.</Empty>;
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = list.filter((tool) => words.every((word) => describeForSearch(tool).includes(word)));
  const name = route.value.item;
  const selected = list.find((tool) => tool.name === name);
  return (
    <div class={`split ${name ? "has-item" : ""}`}>
      <section class="split-list" aria-label="List of tools">
        <div class="bar">
          <input
            type="search"
            data-search
            placeholder="Search tools"
            aria-label="Search tools"
            value={search.value}
            onInput={(event) => (search.value = event.target.value)}
          />
          <span class="muted nowrap" role="status">
            {found.length === list.length ? list.length : `${found.length} of ${list.length}`}
          </span>
        </div>
        <p class="foot muted" title="The list of all tools, as each model receives it">
          {formatCost(listBytes.value)}
        </p>
        <ul class="links">
          {found.map((tool) => (
            <li key={tool.name}>
              <a href={formatAddress("tools", tool.name)} aria-current={tool.name === name ? "true" : undefined}>
                <span class="mono">{tool.name}</span>
                <span class="muted clip">{(tool.description ?? "").split("\n")[0]}</span>
              </a>
            </li>
          ))}
        </ul>
        {!found.length && <p class="muted pad">No tool matches “{search.value}”.</p>}
      </section>
      <section class="split-detail" aria-label="Tool">
        {selected ? (
          <Tool key={selected.name} tool={selected} />
        ) : (
          <Empty title={name ? `There is no tool “${name}”.` : "Select a tool to call it."} />
        )}
      </section>
    </div>
  );
}

function describeForSearch(tool) {
  return `${tool.name} ${tool.title ?? ""} ${tool.description ?? ""}`.toLowerCase();
}

function Tool({ tool }) {
  return (
    <>
      <a class="back" href="#/tools">
        All tools
      </a>
      <header class="item-head">
        <h2 class="mono">{tool.name}</h2>
        {tool.title && tool.title !== tool.name && <span>{tool.title}</span>}
        {listHints(tool.annotations ?? {}).map((hint) => (
          <span key={hint} class="tag">
            {hint}
          </span>
        ))}
      </header>
      {tool.description && <Description key={tool.name} text={tool.description} />}
      <Tabs label="Views of the tool" selected={tab.value} onSelect={(id) => (tab.value = id)} tabs={TABS} />
      <div role="tabpanel" class="tab-body" aria-label={TABS.find(([id]) => id === tab.value)[1]}>
        {tab.value === "try" && <TryIt tool={tool} />}
        {tab.value === "schema" && <Schemas tool={tool} />}
        {tab.value === "latency" && <Latency tool={tool.name} />}
      </div>
    </>
  );
}

function listHints({ readOnlyHint, destructiveHint, idempotentHint, openWorldHint }) {
  return [
    readOnlyHint && "read-only",
    destructiveHint && "destructive",
    idempotentHint && "idempotent",
    openWorldHint && "open world",
  ].filter(Boolean);
}

function Description({ text }) {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.split("\n").length > 4 || text.length > 400;
  return (
    <>
      <p class={`prose ${isLong && !isWhole ? "shortened" : ""}`}>{text}</p>
      {isLong && (
        <button type="button" class="quiet" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Show less" : "Show the whole description"}
        </button>
      )}
    </>
  );
}

function Schemas({ tool }) {
  const about = useMemo(
    () => ({
      inputSchema: tool.inputSchema,
      outputSchema: tool.outputSchema,
      annotations: tool.annotations,
      _meta: tool._meta,
    }),
    [tool],
  );
  return (
    <>
      <h3>Arguments</h3>
      <SchemaTree schema={tool.inputSchema} root={tool.inputSchema} />
      {tool.outputSchema && <h3>Result</h3>}
      {tool.outputSchema && <SchemaTree schema={tool.outputSchema} root={tool.outputSchema} />}
      <h3>JSON</h3>
      <Code value={about} label="Schemas as JSON" />
    </>
  );
}

function SchemaTree({ schema, root, depth = 0 }) {
  const part = findObject(schema, root);
  const properties = Object.entries(part?.properties ?? {});
  if (!properties.length)
    return depth ? null : (
      <p>
        <code class="type">{describeType(schema, root)}</code>
      </p>
    );
  return (
    <dl class="schema">
      {properties.map(([name, property]) => {
        const resolved = resolveSchema(property, root);
        return (
          <div key={name} class="schema-row">
            <dt>
              <code>{name}</code>
              {part.required?.includes(name) && <span class="required"> required</span>}
            </dt>
            <dd>
              <code class="type">{describeType(property, root)}</code>
              {"default" in resolved && (
                <span class="muted">
                  {" "}
                  default <code>{JSON.stringify(resolved.default)}</code>
                </span>
              )}
              <span class="muted">{describeLimits(resolved)}</span>
              {resolved.description && <div>{resolved.description}</div>}
              {depth < MAX_DEPTH && <SchemaTree schema={property} root={root} depth={depth + 1} />}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

/** Return the object that a schema describes: itself, the items of an array, or its only alternative. */
function findObject(schema, root) {
  const [only, ...others] = listAlternatives(resolveSchema(schema, root), root).alternatives;
  if (!only || others.length) return null;
  if (only.items) return findObject(only.items, root);
  return only.type === "object" || only.properties ? only : null;
}

const LIMITS = {
  minimum: "at least",
  maximum: "at most",
  exclusiveMinimum: "more than",
  exclusiveMaximum: "less than",
  minLength: "min. length",
  maxLength: "max. length",
  minItems: "min. items",
  maxItems: "max. items",
  pattern: "pattern",
  multipleOf: "multiple of",
};

function describeLimits(schema) {
  return Object.entries(LIMITS)
    .filter(([key]) => key in schema)
    .map(([key, text]) => ` · ${text} ${schema[key]}`)
    .join("");
}
