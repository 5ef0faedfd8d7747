/** The page: navigation, the panel of the address, the state of the connection, and the keyboard. */
import { effect, signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { setToken, tokenProblem } from "./api.js";
import { countPending, listPanels } from "./panels/index.js";
import { escapeInvisible, formatCount } from "./format.js";
import { announce, announcement, Prose } from "./parts.jsx";
import { formatAddress, navigate, route } from "./route.js";
import { server, sources } from "./store.js";
import { connection, followEvents, rejection } from "./stream.js";

const THEMES = ["system", "light", "dark"];
const THEME_KEY = "mcp-bridge theme";
const MAX_FAULTS = 3; // the Sources panel lists all
const CHORD_TIME = 1500; // ms between g and the key of a panel

const theme = signal(localStorage.getItem(THEME_KEY) ?? "system");
const isHelpOpen = signal(false);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem(THEME_KEY, theme.value);
});

let lastPending = 0;

effect(() => {
  const pending = countPending();
  if (pending > lastPending) announce("A call waits for your answer in the Inbox");
  lastPending = pending;
  const name = server.value?.title ?? server.value?.name ?? "mcp-bridge";
  document.title = pending ? `(${pending}) ${name}` : name;
});

function App() {
  const panels = listPanels();
  const panel = panels.find(({ id }) => id === route.value.panel) ?? panels[0];
  return (
    <>
      <a class="skip" href="#content" onClick={focusContent}>
        Skip to the content
      </a>
      <Navigation panels={panels} current={panel} />
      <main id="content" tabindex="-1" class={panel.isSplit ? "is-split" : ""} key={panel.id}>
        <div class="banners">
          <Connection />
          {panel.id !== "sources" && <Faults />}
        </div>
        <h1 class={panel.isSplit ? "sr-only" : ""}>{panel.title}</h1>
        {tokenProblem.value ? <TokenForm /> : <panel.view />}
      </main>
      <Help panels={panels} />
      <div class="sr-only" role="status" aria-live="polite">
        {announcement.value}
      </div>
    </>
  );
}

function focusContent(event) {
  event?.preventDefault();
  document.getElementById("content").focus();
}

function Navigation({ panels, current }) {
  const [isOpen, setOpen] = useState(false); // only narrow screens have the button
  const pending = countPending();
  useEffect(() => setOpen(false), [route.value]);
  return (
    <nav aria-label="Panels" class={isOpen ? "is-open" : ""}>
      <a
        class="brand"
        href="#/tools"
        aria-label={`${server.value?.title ?? server.value?.name ?? "mcp-bridge"}, start`}
      >
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <path d="M4 22h24M7.5 22v-4.5a8.5 8.5 0 0 1 17 0V22M13 22V10.5M19 22V10.5" />
        </svg>
        <span class="clip">{server.value?.title ?? server.value?.name ?? "mcp-bridge"}</span>
      </a>
      <button
        type="button"
        class="menu-button"
        aria-expanded={isOpen}
        aria-controls="panels"
        aria-label={`${current.title}, menu${pending ? `, ${formatCount(pending, "question")} waiting` : ""}`}
        onClick={() => setOpen(!isOpen)}
      >
        {current.title}
        {pending > 0 && <span class="badge urgent">{pending}</span>} ▾
      </button>
      <ul id="panels">
        {panels.map(({ id, title, count, isUrgent, startsGroup }) => {
          const number = count?.() || 0;
          return (
            <li key={id} class={startsGroup ? "starts-group" : ""}>
              <a href={formatAddress(id)} aria-current={id === current.id ? "page" : undefined}>
                {title}
                {number > 0 && (
                  <span class={`badge ${isUrgent ? "urgent" : ""}`}>
                    <span class="sr-only">, </span>
                    {number}
                  </span>
                )}
              </a>
            </li>
          );
        })}
      </ul>
      <div class="nav-foot">
        <select aria-label="Colours" value={theme.value} onChange={(event) => (theme.value = event.target.value)}>
          {THEMES.map((name) => (
            <option key={name} value={name}>
              {name === "system" ? "System colours" : `${name[0].toUpperCase()}${name.slice(1)} colours`}
            </option>
          ))}
        </select>
        <button
          type="button"
          class="quiet"
          aria-label="Keyboard shortcuts"
          title="Keyboard shortcuts"
          onClick={() => (isHelpOpen.value = true)}
        >
          ?
        </button>
      </div>
    </nav>
  );
}

/** A note while the connection to the server is broken. */
function Connection() {
  const isLost = connection.value === "lost" && !tokenProblem.value;
  const problem = rejection.value || "The connection to the server is lost.";
  return <div role="status">{isLost && <p class="banner">{problem} Connecting again…</p>}</div>;
}

/** The problems of the author's own files, wherever the author looks, until an edit repairs them. */
function Faults() {
  const faults = sources.value
    .filter(({ type }) => type === "python")
    .flatMap(({ name, problems }) => (problems ?? []).map((problem) => ({ name, problem })));
  if (!faults.length) return null;
  return (
    <div role="alert" aria-label="Problems of files">
      {faults.slice(0, MAX_FAULTS).map(({ name, problem }) => (
        <p key={name + problem} class="banner bad">
          <a href={formatAddress("sources")}>{name}</a>: <Prose text={escapeInvisible(problem)} />
        </p>
      ))}
      {faults.length > MAX_FAULTS && (
        <p class="banner bad">
          <a href={formatAddress("sources")}>{faults.length - MAX_FAULTS} more problems</a>
        </p>
      )}
    </div>
  );
}

function TokenForm() {
  const [value, setValue] = useState("");
  const submit = (event) => {
    event.preventDefault();
    setToken(value.trim());
  };
  return (
    <form class="token" onSubmit={submit}>
      <h2>{tokenProblem.value}</h2>
      <p>
        Open the address that <code>mcp-bridge dev</code> printed, or enter the token that clients of this server use.
        It is kept until you close this tab.
      </p>
      <label for="token">Token</label>
      <div class="row">
        <input
          id="token"
          type="password"
          autocomplete="off"
          required
          value={value}
          onInput={(event) => setValue(event.target.value)}
        />
        <button type="submit" class="primary">
          Continue
        </button>
      </div>
    </form>
  );
}

function Help({ panels }) {
  const dialog = useRef(null);
  const isOpen = isHelpOpen.value;
  useEffect(() => {
    if (isOpen && !dialog.current.open) dialog.current.showModal();
    if (!isOpen) dialog.current.close();
  }, [isOpen]);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="help-title"
      onClose={() => (isHelpOpen.value = false)}
      onClick={(event) => event.target === dialog.current && dialog.current.close()}
    >
      <div class="row spread">
        <h2 id="help-title">Keyboard shortcuts</h2>
        <button type="button" class="quiet" onClick={() => dialog.current.close()}>
          Close
        </button>
      </div>
      <dl class="shortcuts">
        {panels.map(({ id, title, key }) => (
          <div key={id}>
            <dt>
              <kbd>g</kbd> <kbd>{key}</kbd>
            </dt>
            <dd>{title}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>/</kbd>
          </dt>
          <dd>Search or filter</dd>
        </div>
        <div>
          <dt>
            <kbd>Enter</kbd>
          </dt>
          <dd>Call the tool; open the selected call</dd>
        </div>
        <div>
          <dt>
            <kbd>Shift</kbd> <kbd>Enter</kbd>
          </dt>
          <dd>New line in a text field</dd>
        </div>
        <div>
          <dt>
            <kbd>Ctrl</kbd> <kbd>Enter</kbd>
          </dt>
          <dd>Call the tool from any field</dd>
        </div>
        <div>
          <dt>
            <kbd>↑</kbd> <kbd>↓</kbd>
          </dt>
          <dd>Move in a list</dd>
        </div>
        <div>
          <dt>
            <kbd>Esc</kbd>
          </dt>
          <dd>Leave a field; close a call or tool</dd>
        </div>
        <div>
          <dt>
            <kbd>?</kbd>
          </dt>
          <dd>This list</dd>
        </div>
      </dl>
    </dialog>
  );
}

let chordUntil = 0;

function pressKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isHelpOpen.value) return;
  const isTyping = event.target.closest("input, textarea, select");
  if (event.key === "Escape") return leave(event, isTyping);
  if (isTyping) return;
  const now = Date.now();
  const panel = now < chordUntil && listPanels().find(({ key }) => key === event.key);
  chordUntil = event.key === "g" && !panel ? now + CHORD_TIME : 0;
  if (panel) {
    navigate(panel.id);
    setTimeout(focusContent);
  } else if (event.key === "?") {
    isHelpOpen.value = true;
  } else if (event.key === "/") {
    event.preventDefault();
    document.querySelector("[data-search]")?.focus();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    moveInLinks(event);
  }
}

function leave(event, isTyping) {
  if (isTyping) event.target.blur();
  else if (route.value.item) navigate(route.value.panel);
}

/** Move between the links of the list that has the focus. */
function moveInLinks(event) {
  const list = event.target.closest(".links, nav ul");
  if (!list) return;
  event.preventDefault();
  const links = [...list.querySelectorAll("a")];
  links[links.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
}

document.addEventListener("keydown", pressKey);
render(<App />, document.getElementById("app"));
followEvents();
