/** Tools: the list, and for one tool the form to call it, its schema and its latency. */
import { computed, signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import { formatCost, measureJson } from "../call_actions.jsx";
import { EntryPanel } from "../entry_list.jsx";
import { Markdown } from "../markdown.jsx";
import { Code, Empty, Tabs } from "../parts.jsx";
import { describeType, listAlternatives, resolveSchema } from "../schema.js";
import { owners, tools, toolsProblem } from "../store.js";
import { Latency } from "../latency.jsx";
import { TryIt } from "../try_it.jsx";

const TABS = [
  ["try", "Try it"],
  ["schema", "Schema"],
  ["latency", "Latency"],
];
const tab = signal("try");
const grouping = signal(null); // null until the user chooses
const MAX_DEPTH = 6;
const listBytes = computed(() => measureJson(tools.value));

// Titles of the groups of a tool.
const GROUPINGS = {
  none: undefined,
  source: ({ name }) => [owners.value[name] ?? "other"],
  tag: (tool) => (listTags(tool).length ? listTags(tool) : ["without a tag"]),
};

function listTags(tool) {
  return tool._meta?.["mcp-bridge/tags"] ?? [];
}

export function ToolsPanel() {
  const list = tools.value;
  if (list === null) return <Empty title={toolsProblem.value || "Loading the tools…"} />;
  if (!list.length)
    return <Empty title="This server has no tools.">If a source has failed, the Sources panel says why.</Empty>;
  const hasSources = new Set(list.map(({ name }) => owners.value[name])).size > 1;
  const hasTags = list.some((tool) => listTags(tool).length);
  return (
    <EntryPanel
      panel="tools"
      noun="tool"
      entries={list.map((tool) => ({ ...tool, id: tool.name }))}
      view={Tool}
      listGroups={GROUPINGS[grouping.value ?? (hasSources ? "source" : "none")]}
      bar={
        (hasSources || hasTags) && (
          <select
            aria-label="Groups"
            value={grouping.value ?? (hasSources ? "source" : "none")}
            onChange={(event) => (grouping.value = event.target.value)}
          >
            <option value="none">no groups</option>
            {hasSources && <option value="source">by source</option>}
            {hasTags && <option value="tag">by tag</option>}
          </select>
        )
      }
      foot={
        <p class="foot muted" title="The list of all tools, as each model receives it">
          {formatCost(listBytes.value)}
        </p>
      }
    />
  );
}

function Tool({ entry: tool }) {
  return (
    <>
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
      <div class={isLong && !isWhole ? "shortened" : ""}>
        <Markdown text={text} />
      </div>
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
