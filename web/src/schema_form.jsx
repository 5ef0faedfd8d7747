/** A form made from a JSON Schema. Every value can be sent: the server alone validates, and its problems are shown here. */
import { createContext } from "preact";
import { useContext, useLayoutEffect, useId, useState } from "preact/hooks";
import { parseJson, parseNumber } from "./numbers.js";
import {
  createValue,
  describeAlternative,
  describeType,
  getKind,
  isObject,
  isOfKind,
  listAlternatives,
  resolveSchema,
} from "./schema.js";

const Form = createContext({ root: {}, problems: [], prefix: "" });
const DATE_TYPES = { date: "date", time: "time" };
const MAX_CHECKBOXES = 12;

/** The fields of an object schema. `problems` are [{path, text}] of the last response of the server. */
export function SchemaForm({ schema, value, onChange, problems = [] }) {
  const prefix = useId();
  const resolved = resolveSchema(schema, schema);
  const isPlainObject = getKind(resolved) === "object" && !resolved.anyOf && !resolved.oneOf;
  return (
    <Form.Provider value={{ root: schema, problems, prefix }}>
      {isPlainObject ? (
        <Properties schema={resolved} value={value} onChange={onChange} path="$" />
      ) : (
        <Field schema={schema} value={value} onChange={onChange} path="$" name="Arguments" isRequired />
      )}
    </Form.Provider>
  );
}

/** Return the input or group of a path, so that a list of problems can move the focus there. */
export function findField(container, path) {
  return container?.querySelector(`[data-path="${CSS.escape(path)}"]`);
}

function Properties({ schema, value, onChange, path }) {
  const properties = Object.entries(schema.properties ?? {});
  const { root } = useContext(Form);
  const current = isObject(value) ? value : (createValue(schema, root) ?? {});
  const change = (name, next) => onChange(sortProperties(withProperty(current, name, next), schema));
  const isOpen = schema.additionalProperties !== undefined && schema.additionalProperties !== false;
  if (!properties.length && !isOpen) return <p class="muted">This takes no arguments.</p>;
  return (
    <div class="fields">
      {properties.map(([name, property]) => (
        <Field
          key={name}
          name={name}
          schema={property}
          value={Object.hasOwn(current, name) ? current[name] : undefined} // not the inherited `constructor`
          onChange={(next) => change(name, next)}
          path={`${path}.${name}`}
          isRequired={schema.required?.includes(name)}
        />
      ))}
      {isOpen && <OtherProperties schema={schema} value={current} onChange={onChange} path={path} />}
    </div>
  );
}

function OtherProperties({ schema, value, onChange, path }) {
  const { root } = useContext(Form);
  const [name, setName] = useState("");
  const others = Object.keys(value).filter((key) => !Object.hasOwn(schema.properties ?? {}, key));
  const canAdd = name !== "" && !Object.hasOwn(value, name);
  const add = () => {
    if (!canAdd) return;
    onChange({ ...value, [name]: createValue(schema.additionalProperties, root) ?? "" });
    setName("");
  };
  return (
    <>
      {others.map((key) => (
        <div class="item" key={key}>
          <Field
            name={key}
            schema={schema.additionalProperties}
            value={value[key]}
            onChange={(next) => onChange(withProperty(value, key, next ?? ""))}
            path={`${path}.${key}`}
            isRequired
          />
          <button
            type="button"
            class="quiet"
            aria-label={`Remove ${key}`}
            onClick={() => onChange(withProperty(value, key))}
          >
            Remove
          </button>
        </div>
      ))}
      <div class="row">
        <input
          aria-label="Name of another property"
          placeholder="name"
          value={name}
          onInput={(event) => setName(event.target.value)}
          onKeyDown={(event) => event.key === "Enter" && (event.preventDefault(), add())}
        />
        <button type="button" disabled={!canAdd} onClick={add}>
          Add property
        </button>
      </div>
    </>
  );
}

function withProperty(value, name, next) {
  const { [name]: _, ...rest } = value;
  if (next === undefined) return rest;
  return Object.hasOwn(value, name) ? { ...value, [name]: next } : { ...rest, [name]: next };
}

/** Put the properties in the order of the schema, so that the JSON reads like the form. */
function sortProperties(value, schema) {
  const order = Object.keys(schema.properties ?? {}).filter((name) => Object.hasOwn(value, name));
  return { ...Object.fromEntries(order.map((name) => [name, value[name]])), ...value };
}

function Field({ schema: given, value, onChange, path, name, isRequired = false }) {
  const { root, problems, prefix } = useContext(Form);
  const schema = resolveSchema(given, root);
  const { alternatives, isNullable } = listAlternatives(schema, root);
  const [chosen, setChosen] = useState(null);
  const matching = alternatives.findIndex((part) => isOfKind(value, part));
  const index =
    chosen !== null && (value === undefined || matching < 0 || isOfKind(value, alternatives[chosen]))
      ? chosen
      : Math.max(matching, 0);
  const current = alternatives[index] ?? {};
  const choose = (event) => {
    const next = Number(event.target.value);
    setChosen(next);
    onChange(createValue(alternatives[next], root));
  };
  const own = problems.filter((problem) => problem.path === path);
  const id = `${prefix}${path}`;
  const kind = getKind(current);
  const isGroup = value !== null && (kind === "object" || kind === "array");
  const description = schema.description ?? current.description;
  const label = schema.title && !path.endsWith("]") ? schema.title : name;
  const describedBy =
    [description && `${id}-text`, own.length && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const control = {
    id,
    "data-path": path,
    "aria-describedby": describedBy,
    "aria-invalid": own.length ? "true" : undefined,
  };
  const Label = isGroup ? "span" : "label";
  const Wrapper = isGroup ? "fieldset" : "div";
  const group = { "data-path": path, "aria-labelledby": `${id}-label`, "aria-describedby": describedBy, tabindex: -1 };
  return (
    <Wrapper class="field" {...(isGroup ? group : {})}>
      <div class="field-head">
        <Label class="field-label" id={`${id}-label`} {...(isGroup ? {} : { for: id })}>
          {label}
          {isRequired && (
            <>
              <span class="required" aria-hidden="true">
                {" "}
                *
              </span>
              <span class="sr-only"> (required)</span>
            </>
          )}
        </Label>
        {label !== name && <code class="type">{name}</code>}
        {alternatives.length > 1 ? (
          <select aria-label={`Type of ${label}`} value={index} onChange={choose}>
            {alternatives.map((part, number) => (
              <option key={number} value={number}>
                {describeAlternative(part, number, alternatives, root)}
              </option>
            ))}
          </select>
        ) : (
          <code class="type">{describeType(given, root)}</code>
        )}
        {isGroup && !isRequired && (
          <button
            type="button"
            class="link push"
            aria-label={`${value === undefined ? "Set" : "Leave out"} ${label}`}
            onClick={() => onChange(value === undefined ? createPresent(current, root, kind) : undefined)}
          >
            {value === undefined ? "Set" : "Leave out"}
          </button>
        )}
        {isNullable && (
          <label class="check small">
            <input
              type="checkbox"
              checked={value === null}
              onChange={(event) => onChange(event.target.checked ? null : undefined)}
            />{" "}
            null
          </label>
        )}
      </div>
      {description && (
        <div class="field-text" id={`${id}-text`}>
          {description}
        </div>
      )}
      {value !== null && (!isGroup || isRequired || value !== undefined) && (
        <Control
          schema={current}
          kind={kind}
          value={value}
          onChange={onChange}
          path={path}
          label={label}
          isRequired={isRequired}
          control={control}
        />
      )}
      {own.length > 0 && (
        <div class="problem" id={`${id}-problem`}>
          {own.map(({ text }) => text).join("; ")}
        </div>
      )}
    </Wrapper>
  );
}

function createPresent(schema, root, kind) {
  const { default: _, ...rest } = schema;
  return createValue(rest, root) ?? (kind === "array" ? [] : {});
}

function Control({ schema, kind, value, onChange, path, label, isRequired, control }) {
  switch (kind) {
    case "const":
      return (
        <ConstantInput schema={schema} value={value} onChange={onChange} isRequired={isRequired} control={control} />
      );
    case "enum":
      return <EnumInput schema={schema} value={value} onChange={onChange} control={control} />;
    case "boolean":
      return (
        <BooleanInput
          value={value}
          onChange={onChange}
          hasUnset={!isRequired && schema.default === undefined}
          control={control}
        />
      );
    case "integer":
    case "number":
      return <NumberInput schema={schema} value={value} onChange={onChange} control={control} />;
    case "string":
      return <TextInput schema={schema} value={value} onChange={onChange} control={control} />;
    case "array":
      return <ArrayInput schema={schema} value={value} onChange={onChange} path={path} label={label} />;
    case "object":
      if (!schema.properties && !isObject(schema.additionalProperties))
        return <JsonInput value={value} onChange={onChange} control={{ "aria-label": label }} />;
      return <Properties schema={schema} value={value} onChange={onChange} path={path} />;
    default:
      return <JsonInput value={value} onChange={onChange} control={control} />;
  }
}

function ConstantInput({ schema, value, onChange, isRequired, control }) {
  if (isRequired && value !== undefined)
    return (
      <output {...control}>
        <code>{JSON.stringify(value)}</code>
      </output>
    );
  return (
    <label class="check">
      <input
        {...control}
        type="checkbox"
        checked={value !== undefined}
        onChange={(event) => onChange(event.target.checked ? schema.const : undefined)}
      />
      <code>{JSON.stringify(schema.const)}</code>
    </label>
  );
}

function EnumInput({ schema, value, onChange, control }) {
  const selected = schema.enum.indexOf(value);
  return (
    <select {...control} value={selected} onChange={(event) => onChange(schema.enum[Number(event.target.value)])}>
      <option value={-1}>not set</option>
      {schema.enum.map(
        (option, index) =>
          option !== null && (
            <option key={index} value={index}>
              {schema.enumNames?.[index] ?? (typeof option === "string" ? option : JSON.stringify(option))}
            </option>
          ),
      )}
    </select>
  );
}

function BooleanInput({ value, onChange, hasUnset, control }) {
  if (!hasUnset) {
    return (
      <label class="check">
        <input
          {...control}
          type="checkbox"
          checked={value === true}
          onChange={(event) => onChange(event.target.checked)}
        />{" "}
        {value === true ? "true" : "false"}
      </label>
    );
  }
  return (
    <select
      {...control}
      value={String(value)}
      onChange={(event) => onChange({ true: true, false: false }[event.target.value])}
    >
      <option value="undefined">not set</option>
      <option value="true">true</option>
      <option value="false">false</option>
    </select>
  );
}

/** Text that is no number is sent as text, so that the server can say what is wrong with it. */
function NumberInput({ schema, value, onChange, control }) {
  return (
    <ParsedInput
      value={value}
      onChange={onChange}
      parse={parseNumber}
      print={(number) => (typeof number === "string" ? number : JSON.stringify(number))}
      control={{ ...control, inputMode: schema.type === "integer" ? "numeric" : "decimal" }}
      placeholder={describeRange(schema)}
    />
  );
}

function describeRange({ minimum, maximum }) {
  if (minimum === undefined && maximum === undefined) return undefined;
  if (maximum === undefined) return `at least ${minimum}`;
  return minimum === undefined ? `at most ${maximum}` : `${minimum} to ${maximum}`;
}

function TextInput({ schema, value, onChange, control }) {
  const change = (event) => onChange(event.target.value === "" ? undefined : event.target.value);
  const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
  if (schema.format in DATE_TYPES)
    return <input {...control} type={DATE_TYPES[schema.format]} step="1" value={text} onInput={change} />;
  const isSecret = schema.format === "password" || schema.writeOnly;
  if (isSecret) return <input {...control} type="password" autocomplete="off" value={text} onInput={change} />;
  if (schema.format) return <input {...control} autocomplete="off" spellcheck={false} value={text} onInput={change} />;
  return (
    <textarea
      {...control}
      class="text"
      rows="1"
      spellcheck={false}
      placeholder={schema.examples?.[0]}
      value={text}
      onInput={change}
    />
  );
}

function JsonInput({ value, onChange, control }) {
  return (
    <ParsedInput
      value={value}
      onChange={onChange}
      parse={parseAny}
      print={(given) => JSON.stringify(given, null, 2)}
      control={control}
      placeholder="JSON; other text is sent as a string"
      isMultiline
    />
  );
}

function parseAny(text) {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** An input whose text is kept while the user types, because printing its value again would change it. */
function ParsedInput({ value, onChange, parse, print, control, placeholder, isMultiline }) {
  const read = (text) => (text === "" ? undefined : parse(text));
  const [text, setText] = useState(() => (value === undefined ? "" : print(value)));
  useLayoutEffect(() => {
    if (JSON.stringify(read(text)) !== JSON.stringify(value)) setText(value === undefined ? "" : print(value));
  }, [value]);
  const change = (event) => {
    setText(event.target.value);
    onChange(read(event.target.value));
  };
  const attributes = { ...control, value: text, placeholder, onInput: change, spellcheck: false, autocomplete: "off" };
  return isMultiline ? (
    <textarea {...attributes} class="text code" rows="2" data-multiline />
  ) : (
    <input {...attributes} />
  );
}

function hasCheckboxes(schema, root) {
  const { alternatives } = listAlternatives(resolveSchema(schema.items, root), root);
  return (
    schema.items !== undefined &&
    alternatives.length === 1 &&
    getKind(alternatives[0]) === "enum" &&
    alternatives[0].enum.length <= MAX_CHECKBOXES
  );
}

function ArrayInput({ schema, value, onChange, path, label }) {
  const { root } = useContext(Form);
  const items = Array.isArray(value) ? value : [];
  if (hasCheckboxes(schema, root)) return <CheckboxList schema={schema} items={items} onChange={onChange} />;
  const getSchema = (index) => schema.prefixItems?.[index] ?? schema.items;
  const next = () => createValue(getSchema(items.length), root);
  return (
    <div class="items">
      {items.map((item, index) => (
        <div class="item" key={index}>
          <Field
            name={`${label} ${index + 1}`}
            schema={getSchema(index)}
            value={item ?? (item === null ? null : undefined)}
            onChange={(changed) => onChange(items.with(index, changed ?? (changed === null ? null : "")))}
            path={`${path}[${index}]`}
            isRequired
          />
          <button
            type="button"
            class="quiet"
            aria-label={`Remove ${label} ${index + 1}`}
            onClick={() => onChange(items.toSpliced(index, 1))}
          >
            Remove
          </button>
        </div>
      ))}
      <button type="button" aria-label={`Add to ${label}`} onClick={() => onChange([...items, next() ?? ""])}>
        Add item
      </button>
    </div>
  );
}

function CheckboxList({ schema, items, onChange }) {
  const { root } = useContext(Form);
  const [options] = listAlternatives(resolveSchema(schema.items, root), root).alternatives;
  const toggle = (option) =>
    onChange(
      items.includes(option)
        ? items.filter((item) => item !== option)
        : options.enum.filter((item) => item === option || items.includes(item)),
    );
  return (
    <div class="checks">
      {options.enum.map((option, index) => (
        <label class="check" key={index}>
          <input type="checkbox" checked={items.includes(option)} onChange={() => toggle(option)} />{" "}
          {options.enumNames?.[index] ?? String(option)}
        </label>
      ))}
    </div>
  );
}
