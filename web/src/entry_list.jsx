/** A list of tools, resources or prompts beside the selected one: searched, in natural order, and perhaps in groups. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Empty } from "./parts.jsx";
import { formatAddress, route } from "./route.js";

const collator = new Intl.Collator("en", { numeric: true });
const searches = signal({}); // panel → text

/**
 * `entries` have `id`, `name`, and perhaps `title` and `description`. `listGroups` returns the titles of the groups of an
 * entry; `view` renders the selected entry. `bar` and `foot` are above and below the list.
 */
export function EntryPanel({ panel, noun, entries, listGroups, view: View, bar, foot }) {
  const id = route.value.item;
  const text = searches.value[panel] ?? "";
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries
    .filter((entry) => words.every((word) => describeForSearch(entry).includes(word)))
    .sort((a, b) => collator.compare(a.name, b.name));
  const selected = entries.find((entry) => entry.id === id);
  useEffect(() => {
    // There is nothing to choose.
    if (!id && entries.length === 1 && !matchMedia("(max-width: 760px)").matches) location.replace(formatAddress(panel, entries[0].id));
  }, [id, entries.length]);
  return (
    <div class={`split ${id ? "has-item" : ""}`}>
      <section class="split-list" aria-label={`List of ${noun}s`}>
        <div class="bar">
          <input
            type="search"
            data-search
            placeholder={`Search ${noun}s`}
            aria-label={`Search ${noun}s`}
            value={text}
            onInput={(event) => (searches.value = { ...searches.value, [panel]: event.target.value })}
          />
          <span class="muted nowrap" role="status">
            {found.length === entries.length ? entries.length : `${found.length} of ${entries.length}`}
          </span>
          {bar}
        </div>
        <Groups groups={groupEntries(found, listGroups)} panel={panel} selectedId={id} />
        {!found.length && (
          <p class="muted pad">
            No {noun} matches “{text}”.
          </p>
        )}
        {foot}
      </section>
      <section class="split-detail" aria-label={noun[0].toUpperCase() + noun.slice(1)}>
        <a class="back" href={formatAddress(panel)}>
          All {noun}s
        </a>
        {selected ? (
          <View key={selected.id} entry={selected} />
        ) : (
          <Empty title={id ? `There is no ${noun} “${id}”.` : `Select a ${noun}.`} />
        )}
      </section>
    </div>
  );
}

function describeForSearch({ name, title, description }) {
  return `${name} ${title ?? ""} ${description ?? ""}`.toLowerCase();
}

/** Return [title, entries] of each group. An entry can be in several; without groups, the title is empty. */
function groupEntries(entries, listGroups) {
  if (!listGroups) return [["", entries]];
  const groups = new Map();
  for (const entry of entries)
    for (const title of listGroups(entry)) {
      if (!groups.has(title)) groups.set(title, []);
      groups.get(title).push(entry);
    }
  return [...groups].sort(([a], [b]) => collator.compare(a, b));
}

function Groups({ groups, panel, selectedId }) {
  return (
    <div class="links">
      {groups.map(([title, entries]) => (
        <section key={title} aria-label={title || undefined}>
          {title && <h2 class="group-title">{title}</h2>}
          <ul>
            {entries.map(({ id, name, title: label, description }) => (
              <li key={id}>
                <a href={formatAddress(panel, id)} aria-current={id === selectedId ? "true" : undefined}>
                  <span class="mono">{name}</span>
                  <span class="muted clip">{(description ?? label ?? "").split("\n")[0]}</span>
                </a>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}
