/** The panels in the order of the navigation. `count` is a badge; `isUrgent` gives it the accent colour. */
import { askingRuns, otherQuestions } from "../runs.js";
import { hasAudit, prompts, quarantine, resources, runningCount, sources, templates, tools } from "../store.js";
import { AuditPanel } from "./audit.jsx";
import { PromptsPanel, ResourcesPanel } from "./entries.jsx";
import { CallsPanel } from "./calls.jsx";
import { InboxPanel } from "./inbox.jsx";
import { ClientsPanel, DecisionsPanel, LintPanel, SettingsPanel, SourcesPanel } from "./lists.jsx";
import { InstallPanel, QuarantinePanel } from "./reviews.jsx";
import { ToolsPanel } from "./tools.jsx";

export function countPending() {
  return otherQuestions.value.length + askingRuns.value.length;
}

const countResources = () => resources.value.length + templates.value.length;

const countFailed = () =>
  sources.value.filter(
    ({ state, reason, problems }) => state === "broken" || (reason && state !== "ready") || problems?.length,
  ).length;

export const PANELS = [
  { id: "tools", title: "Tools", key: "t", view: ToolsPanel, isSplit: true, count: () => tools.value?.length },
  {
    id: "resources",
    title: "Resources",
    key: "o",
    view: ResourcesPanel,
    isSplit: true,
    count: countResources,
    isShown: countResources,
  },
  {
    id: "prompts",
    title: "Prompts",
    key: "p",
    view: PromptsPanel,
    isSplit: true,
    count: () => prompts.value.length,
    isShown: () => prompts.value.length > 0,
  },
  { id: "calls", title: "Calls", key: "c", view: CallsPanel, isSplit: true, count: () => runningCount.value },
  { id: "inbox", title: "Inbox", key: "i", view: InboxPanel, count: countPending, isUrgent: true },
  { id: "decisions", title: "Decisions", key: "d", view: DecisionsPanel, startsGroup: true },
  {
    id: "quarantine",
    title: "Quarantine",
    key: "q",
    view: QuarantinePanel,
    count: () => quarantine.value.length,
    isUrgent: true,
  },
  { id: "audit", title: "Audit", key: "a", view: AuditPanel, isShown: () => hasAudit.value },
  {
    id: "sources",
    title: "Sources",
    key: "s",
    view: SourcesPanel,
    count: countFailed,
    isUrgent: true,
    startsGroup: true,
  },
  { id: "clients", title: "Clients", key: "l", view: ClientsPanel },
  { id: "install", title: "Install", key: "n", view: InstallPanel },
  { id: "lint", title: "Lint", key: "r", view: LintPanel },
  { id: "settings", title: "Settings", key: "e", view: SettingsPanel },
];

export function listPanels() {
  return PANELS.filter(({ isShown }) => !isShown || isShown());
}
