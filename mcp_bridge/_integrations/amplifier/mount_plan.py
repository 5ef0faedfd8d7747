"""Reads mount plans: lists of the modules and agents of a session (MOUNT_PLAN_SPECIFICATION).

A plan comes from settings or from a converted bundle. Reading continues after a problem: the invalid part is left out,
and its place is recorded, so that one error shows the user all problems with their lines. A module can be written in a
short and in a long form. These two sections are equal:

    tools: [tool-search]
    tools: [{module: tool-search, source: null, config: {}}]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_bridge._contracts.similar_names import find_similar_name

# These sections are lists of modules.
MODULE_SECTIONS = ("providers", "tools", "hooks")
PLAN_SECTIONS = ("session", *MODULE_SECTIONS, "agents")
# A session has at most one of each.
SESSION_MODULES = ("orchestrator", "context")
# amplifier-core compares sizes with these values, so it fails if one is not a number.
_INJECTION_LIMITS = ("injection_size_limit", "injection_budget_per_turn")
_MODULE_KEYS = ("module", "source", "config")
# The texts under these keys together are the instructions of an agent. Bundles use the last two.
_INSTRUCTIONS = ("instructions", "instruction", "system")
# An agent can have one key of each pair.
_INHERITANCE = (("exclude_tools", "inherit_tools"), ("exclude_hooks", "inherit_hooks"))
_PLAN_KEYS = (*PLAN_SECTIONS, *SESSION_MODULES)
_AGENT_KEYS = (
    "description", *_INSTRUCTIONS, *_PLAN_KEYS, "provider_preferences", *_INHERITANCE[0], *_INHERITANCE[1],
)  # fmt: skip
_AGENT_FILES = ("include", "dirs")
_BUNDLE_HINT = "Convert the bundle to a mount plan, as the documentation of Amplifier modules describes"
_MODULE_ID = r"[\w.-]+"
_EXAMPLES = {
    "session": ", such as session: {orchestrator: ID, context: ID}",
    "agents": " of names to agents, such as agents: {NAME: {instructions: TEXT}}",
}

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    """A problem in a plan, with its place and the value there. With `shows_value`, the error shows the value, too."""

    place: KeyPath
    problem: str
    value: Any = None
    shows_value: bool = False

    @property
    def path(self) -> str:
        """The place as text, for example `tools[0].module`."""
        text = ""
        for key in self.place:
            text += f"[{key}]" if isinstance(key, int) else f".{key}"
        return text.lstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModule:
    """One module of a plan. Without a `source`, the loader finds the module. `place` is its place in the plan."""

    module: str
    section: str
    source: Any = None
    config: Mapping[str, Any] = field(default_factory=dict)
    place: KeyPath = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan:
    """A mount plan. All modules have the same form, in contrast to the settings.

    `agents` and `session` are the sections as written.
    """

    orchestrator: PlannedModule | None = None
    context: PlannedModule | None = None
    modules: Sequence[PlannedModule] = ()
    agents: Mapping[str, Any] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)

    def get_section(self, section: str) -> list[PlannedModule]:
        return [spec for spec in self.modules if spec.section == section]

    def list_modules(self) -> list[PlannedModule]:
        """Return all modules in mount order: a module may use those of the kinds before it while it mounts."""
        modules = [spec for spec in (self.orchestrator, self.context) if spec is not None]
        modules += self.modules
        return modules

    def list_agent_modules(self) -> list[PlannedModule]:
        """Return the modules of the plan's agents."""
        modules = []
        for name, config in self.agents.items():
            agent, _ = read_agent(str(name), config, self.agents)
            modules += agent.plan.list_modules()
        return modules


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAgent:
    """An agent in a plan: a partial plan, laid over the plan of its parent.

    Attributes:
        configs: Configurations for the parent's orchestrator and context, if the agent does not replace them.
        agents: The names of its possible subagents; None for all.
        inheritance: The names of tools and hooks under `exclude_tools` or `inherit_tools`, and `exclude_hooks` or
            `inherit_hooks`.
    """

    name: str
    description: str = ""
    instructions: str = ""
    plan: MountPlan = field(default_factory=MountPlan)
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    agents: tuple[str, ...] | None = None
    inheritance: Mapping[str, Sequence[str]] = field(default_factory=dict)
    provider_preferences: Sequence[Mapping[str, Any]] = ()


def read_plan(config: Any) -> tuple[MountPlan, list[PlanProblem]]:
    """Read a plan. Return it without its invalid parts, and the problems."""
    reader = _PlanReader()
    if not isinstance(config, Mapping):
        reader.report_value((), config, "a mapping")
        return MountPlan(), reader.problems
    agents = reader.read_mapping(config, "agents", ())
    reader.check_spelling((), config, _PLAN_KEYS)
    if config.get("includes"):
        reader.report(("includes",), f"the bundles that it includes are not read. {_BUNDLE_HINT}", config["includes"])
    if config and not reader.problems and config.keys().isdisjoint(_PLAN_KEYS):
        problem = f"expected modules under {', '.join(PLAN_SECTIONS)}. Its keys are: {', '.join(map(str, config))}"
        reader.report((), problem, config)
    plan = replace(reader.read_modules_of_plan(config, ()), agents=agents)
    for name, agent_config in agents.items():
        if name in _AGENT_FILES and isinstance(agent_config, list):
            problem = f"the files of agents that a bundle includes are not read. {_BUNDLE_HINT}"
            reader.report(("agents", name), problem, agent_config)
        else:
            _, agent_problems = read_agent(str(name), agent_config, agents)
            reader.problems += agent_problems
    return plan, reader.problems


def read_agent(name: str, config: Any, names: Collection[str]) -> tuple[PlannedAgent, list[PlanProblem]]:
    """Read an agent of a plan. Return it without its invalid parts, and the problems.

    `names` are the names of all agents of the plan.
    """
    reader = _PlanReader()
    place: KeyPath = ("agents", name)
    if not isinstance(config, Mapping):
        reader.report_value(place, config, "an agent, as a mapping")
        return PlannedAgent(name=name), reader.problems
    reader.check_spelling(place, config, _AGENT_KEYS)
    texts = [reader.read_text(config, key, place) for key in _INSTRUCTIONS]
    agent = PlannedAgent(
        name=name,
        description=reader.read_text(config, "description", place),
        instructions="\n\n".join(text for text in texts if text),
        plan=reader.read_modules_of_plan(config, place),
        configs={section: reader.read_module_config(config, section, place) for section in SESSION_MODULES},
        agents=reader.read_agent_names(config.get("agents"), names, (*place, "agents")),
        inheritance=reader.read_inheritance(config, place),
        provider_preferences=reader.read_preferences(config.get("provider_preferences"), place),
    )
    return agent, reader.problems


def normalize_config(config: Mapping[str, Any], plan: MountPlan) -> dict[str, Any]:
    """Return a plan as written, but with mappings for its orchestrator and its context.

    Some modules, such as Amplifier's tool-task, fail if one of them is a string.
    """
    session = dict(plan.session)
    for section in SESSION_MODULES:
        spec = getattr(plan, section)
        if spec is not None:
            session[section] = dump_module(spec)
    return {**config, "session": session}


def dump_module(spec: PlannedModule) -> dict[str, Any]:
    """Return a module in the long form of a plan."""
    module: dict[str, Any] = {"module": spec.module}
    if spec.source is not None:
        module["source"] = spec.source
    module["config"] = deepcopy(dict(spec.config))
    return module


class _PlanReader:
    """Reads parts of a plan, and collects their problems. Invalid parts are left out."""

    def __init__(self) -> None:
        self.problems: list[PlanProblem] = []

    def report(self, place: KeyPath, problem: str, value: Any) -> None:
        self.problems.append(PlanProblem(place=place, problem=problem, value=value))

    def report_value(self, place: KeyPath, value: Any, expectation: str) -> None:
        """Report an unexpected value. The error shows it."""
        problem = f"expected {expectation}"
        self.problems.append(PlanProblem(place=place, problem=problem, value=value, shows_value=True))

    def check_spelling(self, place: KeyPath, config: Mapping[str, Any], names: Sequence[str]) -> None:
        """Report keys with a similar name. Other unknown keys may belong to a module."""
        for key, value in config.items():
            if key in names:
                continue
            match = find_similar_name(key, names, cutoff=0.8)
            if match is not None:
                self.report((*place, key), f"unknown key '{key}', did you mean '{match}'?", value)

    def read_mapping(self, config: Mapping[str, Any], key: str, place: KeyPath) -> Mapping[str, Any]:
        value = config.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.report_value((*place, key), value, f"a mapping{_EXAMPLES.get(key, '')}")
            return {}
        return value

    def read_text(self, config: Mapping[str, Any], key: str, place: KeyPath) -> str:
        """Return the text of a key; `system` may be a mapping with `instruction`."""
        value = config.get(key)
        if key == "system" and isinstance(value, Mapping):
            return self.read_text(value, "instruction", (*place, key))
        if value is None or isinstance(value, str):
            return value or ""
        self.report_value((*place, key), value, "a string")
        return ""

    def read_modules_of_plan(self, config: Mapping[str, Any], place: KeyPath) -> MountPlan:
        """Read the session and the modules of a plan, or of an agent. An agent's configuration is a partial plan."""
        session = self.read_mapping(config, "session", place)
        for key in _INJECTION_LIMITS:
            limit = session.get(key)
            if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
                self.report_value((*place, "session", key), limit, "a whole number")
        for section in SESSION_MODULES:
            value = config.get(section)
            name = value if isinstance(value, str) else _as_mapping(value).get("module")
            if name is not None and session.get(section) is None:
                problem = f"the {section} of a session belongs under 'session'. Write: session: {{{section}: {name}}}"
                self.report((*place, section), problem, value)
        keys = (*SESSION_MODULES, "orchestrator_source", "context_source")
        self.check_spelling((*place, "session"), session, keys)
        orchestrator = self._read_session_module(session, "orchestrator", config, place)
        context = self._read_session_module(session, "context", config, place)
        modules: list[PlannedModule] = []
        for section in MODULE_SECTIONS:
            modules += self._read_section(config, section, place)
        return MountPlan(orchestrator=orchestrator, context=context, modules=modules, session=session)

    def read_module_config(self, agent: Mapping[str, Any], section: str, place: KeyPath) -> Mapping[str, Any]:
        """Return the agent's configuration for an orchestrator or context of its parent."""
        value = agent.get(section)
        # If the session of the agent has its own module, `_read_session_module` reads the configuration with it.
        if not isinstance(value, Mapping) or _as_mapping(agent.get("session")).get(section) is not None:
            return {}
        return self.read_mapping(value, "config", (*place, section))

    def read_agent_names(self, value: Any, names: Collection[str], place: KeyPath) -> tuple[str, ...] | None:
        if value is None or value == "all":
            return None
        if value == "none":
            return ()
        if not isinstance(value, list):
            self.report_value(place, value, "'all', 'none' or a list of names")
            return ()
        known_names: list[Any] = []
        for index, name in enumerate(value):
            if not isinstance(name, Hashable):
                # A list or a mapping cannot be hashed, so `in` would raise a TypeError.
                self.report_value((*place, index), name, "the name of an agent")
            elif name in names:
                known_names.append(name)
            else:
                match = find_similar_name(name, names)
                hint = f"the plan has: {', '.join(map(str, names))}"
                if match is not None:
                    hint = f"did you mean '{match}'?"
                self.report((*place, index), f"no agent '{name}', {hint}", name)
        return tuple(known_names)

    def read_inheritance(self, agent: Mapping[str, Any], place: KeyPath) -> dict[str, Sequence[str]]:
        inheritance: dict[str, Sequence[str]] = {}
        for first, second in _INHERITANCE:
            if agent.get(first) is not None and agent.get(second) is not None:
                problem = f"'{first}' and '{second}' cannot be combined. Give only one of them"
                self.report((*place, second), problem, agent[second])
            for key in (first, second):
                value = agent.get(key)
                if isinstance(value, list) and all(isinstance(name, str) for name in value):
                    inheritance[key] = value
                elif value is not None:
                    self.report_value((*place, key), value, "a list of names")
        return inheritance

    def read_preferences(self, value: Any, place: KeyPath) -> list[Mapping[str, Any]]:
        if value is None:
            return []
        place = (*place, "provider_preferences")
        if not isinstance(value, list):
            self.report_value(place, value, "a list of mappings with 'provider', and optionally 'model'")
            return []
        preferences = []
        for index, preference in enumerate(value):
            fields = _as_mapping(preference)
            provider, model, config = fields.get("provider"), fields.get("model"), fields.get("config")
            if not isinstance(provider, str) or not provider:
                self.report_value((*place, index), preference, "a mapping with 'provider', and optionally 'model'")
            elif model is not None and not isinstance(model, str):
                # Without a model, the provider uses its default.
                self.report_value((*place, index, "model"), model, "the name or a pattern of models")
            elif config is not None and not isinstance(config, Mapping):
                self.report_value((*place, index, "config"), config, "a mapping")
            else:
                preferences.append(preference)
        return preferences

    def _read_session_module(
        self, session: Mapping[str, Any], section: str, config: Mapping[str, Any], place: KeyPath
    ) -> PlannedModule | None:
        """Return the orchestrator or context.

        The session has its name, or a mapping with its source and its configuration. They can also have separate keys:
        the source in the session (`orchestrator_source`), the configuration in the section `orchestrator` of the plan.
        The keys of the mapping take precedence.
        """
        value = session.get(section)
        if value is None:
            return None
        if isinstance(value, str):
            value = {"module": value}
        if isinstance(value, Mapping):
            module_config = self.read_mapping(config, section, place).get("config")
            if module_config is not None and not isinstance(module_config, Mapping):
                self.report_value((*place, section, "config"), module_config, "a mapping")
                return None
            value = {"source": session.get(f"{section}_source"), "config": module_config, **value}
        return self._read_module(value, section, (*place, "session", section))

    def _read_section(self, config: Mapping[str, Any], section: str, place: KeyPath) -> list[PlannedModule]:
        value = config.get(section)
        if value is None:
            return []
        if not isinstance(value, list):
            # The example names the module that the user probably means.
            name: Any = ""
            if isinstance(value, str):
                name = value
            elif isinstance(value, Mapping):
                name = value.get("module", next(iter(value), ""))
            if not re.fullmatch(_MODULE_ID, str(name)):
                name = "ID"
            self.report_value((*place, section), value, f"a list of modules, such as {section}: [{{module: {name}}}]")
            return []
        modules = []
        for index, item in enumerate(value):
            spec = self._read_module(item, section, (*place, section, index))
            if spec is not None:
                modules.append(spec)
        return modules

    def _read_module(self, value: Any, section: str, place: KeyPath) -> PlannedModule | None:
        if isinstance(value, str) and value:
            value = {"module": value}
        if not isinstance(value, Mapping):
            self.report_value(place, value, "a module: its name, or a mapping with 'module'")
            return None
        name, config = value.get("module"), value.get("config")
        problem_count = len(self.problems)
        self.check_spelling(place, value, _MODULE_KEYS)
        if "module" not in value:
            # If `module` is misspelled, that is reported already.
            if len(self.problems) == problem_count:
                keys = ", ".join(map(str, value)) or "none"
                problem = f"expected a mapping with 'module', the id of a module. Its keys are: {keys}"
                self.report(place, problem, value)
            return None
        if not isinstance(name, str) or not name:
            self.report_value((*place, "module"), name, "the id of a module")
            return None
        if config is not None and not isinstance(config, Mapping):
            self.report_value((*place, "config"), config, "a mapping")
            return None
        source, config = value.get("source"), dict(config or {})
        return PlannedModule(module=name, section=section, source=source, config=config, place=place)


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
