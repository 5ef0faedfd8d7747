/** Audit: the recorded calls, filtered and paged by the server. */
import { useEffect, useRef, useState } from "preact/hooks";
import { requestJson } from "../api.js";
import { Code, Empty, State, Table } from "../parts.jsx";
import { formatDuration, formatTime } from "../format.js";

const FILTERS = [
  ["tool", "Tool"],
  ["principal", "Principal"],
  ["outcome", "Outcome"],
  ["text", "Text"],
];
const KNOWN = new Set(["time", "name", "principal", "client", "outcome", "code", "duration_ms"]);

export function AuditPanel() {
  const [filter, setFilter] = useState({});
  const [page, setPage] = useState({ rows: [], next: null });
  const [problem, setProblem] = useState("");
  const latest = useRef(0);
  const read = async (before, rows, used) => {
    const number = ++latest.current; // an earlier search may end later
    try {
      const given = Object.entries({ ...used, before }).filter(([, value]) => value);
      const result = await requestJson(`page/audit?${new URLSearchParams(given)}`);
      if (number !== latest.current) return;
      setPage({ rows: [...rows, ...result.rows], next: result.next ?? null, filter: used });
      setProblem("");
    } catch (error) {
      if (number === latest.current) setProblem(error.message);
    }
  };
  useEffect(() => void read(null, [], {}), []);
  const submit = (event) => {
    event.preventDefault();
    read(null, [], filter);
  };
  const columns = [
    ["Time", ({ time }) => formatTime(typeof time === "string" ? Date.parse(time) / 1000 : time), "mono nowrap"],
    ["Name", (row) => row.name ?? row.kind, "mono"],
    ["Outcome", (row) => <State state={row.outcome} />],
    ["Code", (row) => row.code, "mono"],
    ["Principal", (row) => row.principal],
    ["Client", (row) => row.client],
    ["Duration", (row) => formatDuration(row.duration_ms), "mono number"],
    ["More", (row) => <Rest row={row} />],
  ];
  return (
    <>
      <form class="bar" onSubmit={submit}>
        {FILTERS.map(([name, title], index) => (
          <input
            key={name}
            {...(index === 0 ? { "data-search": "" } : {})}
            aria-label={title}
            placeholder={title}
            value={filter[name] ?? ""}
            onInput={(event) => setFilter({ ...filter, [name]: event.target.value })}
          />
        ))}
        <button type="submit">Search</button>
      </form>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {page.rows.length ? (
        <Table label="Recorded calls" columns={columns} rows={page.rows} />
      ) : (
        <Empty title="No recorded call matches." />
      )}
      {page.next && (
        <p>
          <button type="button" onClick={() => read(page.next, page.rows, page.filter)}>
            Show older calls
          </button>
        </p>
      )}
    </>
  );
}

function Rest({ row }) {
  const rest = Object.fromEntries(Object.entries(row).filter(([key]) => !KNOWN.has(key)));
  return (
    Object.keys(rest).length > 0 && (
      <details>
        <summary>Show</summary>
        <Code value={rest} label="Other fields" />
      </details>
    )
  );
}
