/** The panels that only list: decisions, sources, clients, settings and lint findings. */
import { useState } from "preact/hooks";
import { requestJson } from "../api.js";
import { can, clients, decisions, lint, server, settings, sources } from "../store.js";
import { ActionButton, announce, Code, CopyButton, Diff, Empty, Prose, State, Table } from "../parts.jsx";
import { formatTime, formatUptime } from "../format.js";

const DECIDERS = {
  elicitation: "user at the client",
  terminal: "user at a terminal",
  page: "user on the page",
  remembered: "earlier decision",
  default: "default",
  timeout: "no answer in time",
};

export function DecisionsPanel() {
  const rows = [...decisions.value].sort((a, b) => b.time - a.time);
  if (!rows.length)
    return <Empty title="No decisions yet.">When a user allows or denies a call, the decision is listed here.</Empty>;
  const columns = [
    ["Time", ({ time }) => formatTime(time), "mono nowrap"],
    ["Tool", ({ tool }) => tool, "mono"],
    ["Decision", ({ decision }) => <State state={decision} />],
    ["For", ({ scope }) => ({ once: "this call", session: "the session", always: "always" })[scope] ?? ""],
    ["By", ({ how, user }) => [DECIDERS[how] ?? how, user].filter(Boolean).join(": ")],
    ["Principal", ({ principal }) => principal],
  ];
  return <Table label="Decisions" columns={columns} rows={rows} />;
}

export function SourcesPanel() {
  const columns = [
    ["Source", ({ name }) => name, "mono"],
    ["Type", ({ type }) => type],
    [
      "State",
      ({ name, state, reason, since, failures }) => (
        <>
          <State state={state} />
          {since ? <span class="muted"> since {formatTime(since)}</span> : null}
          {reason && (
            <div class="problem">
              <Prose text={reason} />
            </div>
          )}
          {failures !== undefined && state !== "ready" && can.value.retry && (
            <div>
              <ActionButton class="link" aria-label={`Try ${name} again`} action={() => retry(name)}>
                Try again
              </ActionButton>
            </div>
          )}
        </>
      ),
    ],
    ["Tools", ({ tools }) => tools, "number"],
    ["Resources", ({ resources }) => resources, "number"],
    ["Prompts", ({ prompts }) => prompts, "number"],
    ["Server", (source) => [source.server, source.version].filter(Boolean).join(" ")],
  ];
  const lists = sources.value.flatMap(({ name, reason, problems, notes }) => [
    // The table has the reason already.
    { name, title: "Problems of", lines: [...new Set(problems)].filter((line) => !reason || !line.includes(reason)) },
    { name, title: "Notes about", lines: notes ?? [] },
  ]);
  return (
    <>
      {server.value && <ServerFacts />}
      {sources.value.length ? (
        <Table label="Sources" columns={columns} rows={sources.value} getKey={({ name }) => name} />
      ) : (
        <Empty title="There are no sources to show.">Only operators see them.</Empty>
      )}
      {lists
        .filter(({ lines }) => lines.length)
        .map(({ name, title, lines }) => (
          <section key={title + name} class="pad-top">
            <h2>
              {title} <span class="mono">{name}</span>
            </h2>
            <ul class="problems">
              {lines.map((line) => (
                <li key={line}>
                  <Prose text={line} />
                </li>
              ))}
            </ul>
          </section>
        ))}
    </>
  );
}

async function retry(name) {
  await requestJson(`page/sources/${encodeURIComponent(name)}`, { action: "retry" });
  announce(`${name} is tried again`);
}

function ServerFacts() {
  const { name, title, version, uptime_s: uptime, pid, instructions } = server.value;
  return (
    <dl class="facts wide">
      <div>
        <dt>Server</dt>
        <dd>
          {title && title !== name ? `${title} (${name})` : name} {version}
        </dd>
      </div>
      <div>
        <dt>Running for</dt>
        <dd>{formatUptime(uptime)}</dd>
      </div>
      <div>
        <dt>Process</dt>
        <dd>{pid}</dd>
      </div>
      <div>
        <dt>Address for clients</dt>
        <dd>
          <code>{new URL("mcp", document.baseURI).href}</code>
        </dd>
      </div>
      {instructions && (
        <div class="whole">
          <dt>Instructions for models</dt>
          <dd class="prose">{instructions}</dd>
        </div>
      )}
    </dl>
  );
}

export function ClientsPanel() {
  if (!clients.value.length)
    return (
      <Empty title="No client is connected.">
        Connect one in <a href="#/install">Install</a>. Clients of 2026-07-28 keep no connection, so they are listed once
        they have made a call.
      </Empty>
    );
  const columns = [
    [
      "Client",
      ({ name, version }) => (
        <>
          <span>{name}</span> <span class="muted">{version}</span>
        </>
      ),
    ],
    ["Protocol", ({ protocol }) => protocol, "mono nowrap"],
    ["Transport", ({ transport }) => transport],
    ["Principal", ({ principal }) => principal],
    ["Since", ({ since }) => formatTime(since), "mono nowrap"],
    ["Calls", ({ calls }) => calls, "number"],
  ];
  return <Table label="Clients" columns={columns} rows={clients.value} getKey={({ id }) => id} />;
}

export function SettingsPanel() {
  if (!settings.value) return <Empty title="There are no settings to show.">Only operators see them.</Empty>;
  const { path, text } = settings.value;
  return (
    <>
      <div class="row spread">
        <p class="muted">
          {path ? (
            <>
              Loaded from <code>{path}</code>.{" "}
            </>
          ) : (
            "No settings file. "
          )}
          Secrets are redacted.
        </p>
        <CopyButton text={text} />
      </div>
      <Code text={text} label="Settings" />
    </>
  );
}

export function LintPanel() {
  const [client, setClient] = useState("");
  const [plan, setPlan] = useState(null);
  const names = [...new Set(lint.value.map((finding) => finding.client))].sort();
  if (!names.length) return <Empty title="No findings.">All clients accept these tools as they are.</Empty>;
  const columns = [
    ["Client", (finding) => finding.client],
    ["Tool", ({ tool }) => tool, "mono"],
    ["Rule", ({ rule }) => rule, "mono nowrap"],
    ["Severity", ({ severity }) => severity && <State state={severity} />],
    ["Finding", ({ text }) => <Prose text={text} />],
    [
      "Setting",
      ({ dialect }) =>
        dialect && can.value.dialect ? (
          <ActionButton class="link" action={async () => setPlan(await showDialect(dialect))}>
            Set dialect: {dialect}
          </ActionButton>
        ) : null,
    ],
  ].filter(([title]) => title !== "Severity" || lint.value.some(({ severity }) => severity));
  return (
    <>
      <div class="bar">
        <select aria-label="Client" value={client} onChange={(event) => setClient(event.target.value)}>
          <option value="">all clients</option>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </div>
      {plan && <DialectChange key={plan.digest} plan={plan} onClose={() => setPlan(null)} />}
      <Table
        label="Lint findings"
        columns={columns}
        rows={lint.value.filter((finding) => !client || finding.client === client)}
      />
    </>
  );
}

async function showDialect(client) {
  const path = `page/dialects/${encodeURIComponent(client)}`;
  return { ...(await requestJson(path, { apply: false })), path };
}

/** The change of the settings file for a finding, and the button that makes it. */
function DialectChange({ plan: { path, file, diff, digest }, onClose }) {
  const [done, setDone] = useState("");
  const write = async () => {
    const { backup } = await requestJson(path, { apply: true, digest });
    setDone(`Written to ${file}. The backup is ${backup}. Restart the server to apply it.`);
    announce("The settings are changed");
  };
  return (
    <section class="card" aria-label="Change of the settings">
      {done ? (
        <p>{done}</p>
      ) : (
        <>
          <p class="muted">
            Changes <code>{file}</code>
          </p>
          <Diff lines={diff} label="Change of the settings file" />
        </>
      )}
      <div class="row">
        {!done && (
          <ActionButton class="primary" action={write}>
            Write this change
          </ActionButton>
        )}
        <button type="button" class="quiet" onClick={onClose}>
          Close
        </button>
      </div>
    </section>
  );
}
