/** The panels whose actions show exactly what they change: quarantined tools, and the files of clients. */
import { useState } from "preact/hooks";
import { requestJson } from "../api.js";
import { can, installs, quarantine } from "../store.js";
import { ActionButton, announce, Diff, Empty, State } from "../parts.jsx";
import { readState } from "../stream.js";

const REASONS = {
  new: "This tool is new. The lines are its definition.",
  changed: "This definition has changed since it was accepted.",
};

export function QuarantinePanel() {
  if (!quarantine.value.length)
    return (
      <Empty title="No tool is quarantined.">
        A tool of another server whose definition has changed since you accepted it is held back, and listed here with
        the difference.
      </Empty>
    );
  return (
    <ul class="cards">
      {quarantine.value.map(({ source, tool, fingerprint, reason, diff }) => (
        <li key={`${source}/${tool}`} class="card">
          <header class="item-head">
            <h2 class="mono">{tool}</h2>
            <span class="muted">from {source}</span>
          </header>
          {reason && <p class="muted">{REASONS[reason] ?? reason}</p>}
          <Diff lines={diff ?? []} label={`Difference of ${tool}`} />
          {can.value.quarantine && (
            <div class="row">
              <ActionButton action={() => accept(source, tool, fingerprint)}>Accept this definition</ActionButton>
            </div>
          )}
        </li>
      ))}
    </ul>
  );
}

async function accept(source, tool, fingerprint) {
  await requestJson(`page/quarantine/${encodeURIComponent(source)}/${encodeURIComponent(tool)}`, {
    action: "accept",
    fingerprint,
  });
  announce(`${tool} is accepted`);
  await readState();
}

export function InstallPanel() {
  if (!installs.value.length)
    return (
      <Empty title="This server cannot be installed from its page.">
        Use <code>mcp-bridge install</code>, or a token that may do so.
      </Empty>
    );
  const found = installs.value.filter((client) => client.found ?? true);
  const others = installs.value.filter((client) => !found.includes(client));
  return (
    <>
      <p class="muted">
        Adds this server to the file of a client. You see the exact change first, and a backup is kept.
      </p>
      {found.length > 0 && (
        <ul class="cards">
          {found.map((client) => (
            <InstallCard key={client.client} client={client} />
          ))}
        </ul>
      )}
      {others.length > 0 && (
        <details class="pad-top" open={!found.length}>
          <summary>Clients that were not found on this machine ({others.length})</summary>
          <ul class="cards pad-top">
            {others.map((client) => (
              <InstallCard key={client.client} client={client} />
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function InstallCard({ client: { client, title, installed } }) {
  const [plan, setPlan] = useState(null);
  const [done, setDone] = useState("");
  const path = `page/installs/${encodeURIComponent(client)}`;
  const write = async () => {
    const result = await requestJson(path, { apply: true, digest: plan.digest });
    setPlan(null);
    setDone(
      `Written to ${result.file ?? plan.file}.${result.backup ? ` The backup is ${result.backup}.` : ""} ${result.notes ?? ""}`,
    );
    announce(`${title ?? client}: installed`);
    await readState();
  };
  const isUnchanged = plan?.action === "none";
  return (
    <li class="card">
      <header class="item-head">
        <h2>{title ?? client}</h2>
        {installed && <State state="installed" />}
        {can.value.install && !plan && (
          <span class="push">
            <ActionButton
              aria-label={`Show the change for ${title ?? client}`}
              action={async () => (setDone(""), setPlan(await requestJson(path, { apply: false })))}
            >
              Show the change
            </ActionButton>
          </span>
        )}
      </header>
      {done && <p>{done}</p>}
      {plan && (
        <>
          <p class="muted">
            {isUnchanged ? "Nothing to change in" : plan.before ? "Changes the entry in" : "Adds an entry to"}{" "}
            <code>{plan.file}</code>
          </p>
          {!isUnchanged && <Diff lines={plan.diff} label={`Change for ${title ?? client}`} />}
          <div class="row">
            {!isUnchanged && (
              <ActionButton class="primary" action={write}>
                Write this change
              </ActionButton>
            )}
            <button type="button" class="quiet" onClick={() => setPlan(null)}>
              Close
            </button>
          </div>
        </>
      )}
    </li>
  );
}
