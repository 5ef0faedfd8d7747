"""Mount plans: the modules of a session (MOUNT_PLAN_SPECIFICATION, as far as the contracts show it)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_bridge._contracts.similar_names import find_similar_name

# These sections are lists of modules.
MODULE_SECTIONS = ("providers", "tools", "hooks")
PLAN_SECTIONS = ("session", *MODULE_SECTIONS, "agents")
_AGENT_KINDS = ("orchestrator", "context")
# amplifier-core compares numbers with these values.
_INJECTION_LIMITS = ("injection_size_limit", "injection_budget_per_turn")
_SPEC_KEYS = ("module", "source", "config")
# The keys of the same text. Bundles use the last two.
_INSTRUCTIONS = ("instructions", "instruction", "system")
_INHERITANCE = (("exclude_tools", "inherit_tools"), ("exclude_hooks", "inherit_hooks"))
AGENT_KEYS = (
    "description", *_INSTRUCTIONS, "session", *_AGENT_KINDS, *MODULE_SECTIONS, "agents", "provider_preferences",
    *(key for pair in _INHERITANCE for key in pair),
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
    """A problem in a plan, with its place and the value found there.

    `expects` is whether the problem is the value: then the message ends with it.
    """

    place: KeyPath
    problem: str
    found: Any = None
    expects: bool = False

    @property
    def path(self) -> str:
        """The place as text, for example `tools[0].module`."""
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.place)
        return text.lstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModule:
    """One module of a plan. A `source` of None leaves it to the loader to find the module; `place` is in the plan."""

    module: str
    kind: str
    source: Any = None
    config: Mapping[str, Any] = field(default_factory=dict)
    place: KeyPath = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan:
    """A normalized mount plan: modules given by name or by `module`, `source` and `config` are the same here."""

    orchestrator: PlannedModule | None = None
    context: PlannedModule | None = None
    modules: Sequence[PlannedModule] = ()
    agents: Mapping[str, Any] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)

    def get_section(self, kind: str) -> list[PlannedModule]:
        return [spec for spec in self.modules if spec.kind == kind]

    def list_modules(self) -> list[PlannedModule]:
        """Return all modules in mount order, dependencies first."""
        single = [spec for spec in (self.orchestrator, self.context) if spec is not None]
        return [*single, *self.modules]

    def list_agent_modules(self) -> list[PlannedModule]:
        """Return the modules of the plan's agents, for a search that mounts nothing."""
        agents = [read_agent(str(name), config, self.agents)[0] for name, config in self.agents.items()]
        return [spec for agent in agents for spec in agent.plan.list_modules()]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAgent:
    """An agent of a plan's `agents` section: a partial plan, which is laid over that of the agent that starts it.

    `configs` change the configuration of an orchestrator or context that it does not replace. `agents` are the names of
    the agents that it may start itself; None for all. Of each pair of `exclude_tools` and `inherit_tools`, and of the
    same for hooks, `inheritance` has at most one.
    """

    name: str
    description: str = ""
    instructions: str = ""
    plan: MountPlan = field(default_factory=MountPlan)
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    agents: tuple[str, ...] | None = None
    inheritance: Mapping[str, Sequence[str]] = field(default_factory=dict)
    provider_preferences: Sequence[Mapping[str, Any]] = ()


def read_plan(given: Any) -> tuple[MountPlan, list[PlanProblem]]:
    """Read a plan; return it without its invalid parts, and the problems."""
    if not isinstance(given, Mapping):
        return MountPlan(), [_build_problem((), given, "a mapping")]
    problems: list[PlanProblem] = []
    agents = _read_mapping(given, "agents", problems)
    problems += _check_spelling((), given, (*PLAN_SECTIONS, *_AGENT_KINDS))
    if given.get("includes"):
        problem = f"the bundles that it includes are not read. {_BUNDLE_HINT}"
        problems.append(PlanProblem(place=("includes",), problem=problem, found=given["includes"]))
    if given and not problems and given.keys().isdisjoint((*PLAN_SECTIONS, *_AGENT_KINDS)):
        problem = f"expected modules under {', '.join(PLAN_SECTIONS)}. Its keys are: {', '.join(map(str, given))}"
        problems.append(PlanProblem(place=(), problem=problem, found=given))
    plan = replace(_read_modules_of_plan(given, problems), agents=agents)
    for name, config in agents.items():
        if name in _AGENT_FILES and isinstance(config, list):
            problem = f"the files of agents that a bundle includes are not read. {_BUNDLE_HINT}"
            problems.append(PlanProblem(place=("agents", name), problem=problem, found=config))
        else:
            problems += read_agent(str(name), config, agents)[1]
    return plan, problems


def read_agent(name: str, given: Any, known: Collection[str]) -> tuple[PlannedAgent, list[PlanProblem]]:
    """Read an agent of a plan with these agents; return it without its invalid parts, and the problems."""
    place: KeyPath = ("agents", name)
    if not isinstance(given, Mapping):
        return PlannedAgent(name=name), [_build_problem(place, given, "an agent, as a mapping")]
    problems = _check_spelling(place, given, AGENT_KEYS)
    agent = PlannedAgent(
        name=name,
        description=_read_text(given, "description", problems, place),
        instructions="\n\n".join(filter(None, (_read_text(given, key, problems, place) for key in _INSTRUCTIONS))),
        plan=_read_modules_of_plan(given, problems, place),
        configs={kind: _read_config(given, kind, problems, place) for kind in _AGENT_KINDS},
        agents=_read_agent_names(given.get("agents"), known, problems, (*place, "agents")),
        inheritance=_read_inheritance(given, problems, place),
        provider_preferences=_read_preferences(given.get("provider_preferences"), problems, place),
    )
    return agent, problems


def normalize_config(config: Mapping[str, Any], plan: MountPlan) -> dict[str, Any]:
    """Return a plan as written, with its orchestrator and its context as mappings, which some modules require."""
    single = {section: spec for section in _AGENT_KINDS if (spec := getattr(plan, section)) is not None}
    return {**config, "session": {**plan.session, **{section: dump_module(spec) for section, spec in single.items()}}}


def dump_module(spec: PlannedModule) -> dict[str, Any]:
    """Return a module in the form of a plan."""
    source = {} if spec.source is None else {"source": spec.source}
    return {"module": spec.module, **source, "config": deepcopy(dict(spec.config))}


def _read_modules_of_plan(plan: Mapping[str, Any], problems: list[PlanProblem], place: KeyPath = ()) -> MountPlan:
    session = _read_mapping(plan, "session", problems, place)
    for key in _INJECTION_LIMITS:
        limit = session.get(key)
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
            problems.append(_build_problem((*place, "session", key), limit, "a whole number"))
    for kind in _AGENT_KINDS:
        definition = plan.get(kind)
        name = definition if isinstance(definition, str) else _as_mapping(definition).get("module")
        if name is not None and session.get(kind) is None:
            problem = f"the {kind} of a session belongs under 'session'. Write: session: {{{kind}: {name}}}"
            problems.append(PlanProblem(place=(*place, kind), problem=problem, found=definition))
    keys = (*_AGENT_KINDS, *(f"{kind}_source" for kind in _AGENT_KINDS))
    problems += _check_spelling((*place, "session"), session, keys)
    agent = {kind: _read_agent_module(session, kind, plan, problems, place) for kind in _AGENT_KINDS}
    modules = [spec for kind in MODULE_SECTIONS for spec in _read_modules(plan, kind, problems, place)]
    return MountPlan(orchestrator=agent["orchestrator"], context=agent["context"], modules=modules, session=session)


def _read_config(agent: Mapping[str, Any], kind: str, problems: list[PlanProblem], place: KeyPath) -> Mapping[str, Any]:
    section, session = agent.get(kind), agent.get("session")
    if not isinstance(section, Mapping) or (isinstance(session, Mapping) and session.get(kind) is not None):
        # The configuration belongs to the module of the session, and is read with it.
        return {}
    return _read_mapping(section, "config", problems, (*place, kind))


def _read_text(agent: Mapping[str, Any], key: str, problems: list[PlanProblem], place: KeyPath) -> str:
    """The text of a key; `system` may be a mapping with `instruction`."""
    value = agent.get(key)
    if key == "system" and isinstance(value, Mapping):
        return _read_text(value, "instruction", problems, (*place, key))
    if value is None or isinstance(value, str):
        return value or ""
    problems.append(_build_problem((*place, key), value, "a string"))
    return ""


def _read_agent_names(
    value: Any, names: Collection[str], problems: list[PlanProblem], place: KeyPath
) -> tuple[str, ...] | None:
    if value is None or value == "all":
        return None
    if value == "none":
        return ()
    if not isinstance(value, list):
        problems.append(_build_problem(place, value, "'all', 'none' or a list of names"))
        return ()
    for index, name in enumerate(value):
        if name not in names:
            match = find_similar_name(name, names)
            hint = f"did you mean '{match}'?" if match is not None else f"the plan has: {', '.join(map(str, names))}"
            problems.append(PlanProblem(place=(*place, index), problem=f"no agent '{name}', {hint}", found=name))
    return tuple(name for name in value if name in names)


def _read_inheritance(
    agent: Mapping[str, Any], problems: list[PlanProblem], place: KeyPath
) -> dict[str, Sequence[str]]:
    inheritance: dict[str, Sequence[str]] = {}
    for pair in _INHERITANCE:
        present = {key: agent[key] for key in pair if agent.get(key) is not None}
        if len(present) > 1:
            problem = f"'{pair[0]}' and '{pair[1]}' cannot be combined. Give only one of them"
            problems.append(PlanProblem(place=(*place, pair[1]), problem=problem, found=present[pair[1]]))
        for key, value in present.items():
            if isinstance(value, list) and all(isinstance(name, str) for name in value):
                inheritance[key] = value
            else:
                problems.append(_build_problem((*place, key), value, "a list of names"))
    return inheritance


def _read_preferences(value: Any, problems: list[PlanProblem], place: KeyPath) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    place = (*place, "provider_preferences")
    if not isinstance(value, list):
        problems.append(_build_problem(place, value, "a list of mappings with 'provider' and 'model'"))
        return []
    preferences = []
    for index, preference in enumerate(value):
        if isinstance(_as_mapping(preference).get("provider"), str) and preference["provider"]:
            preferences.append(preference)
        else:
            problems.append(_build_problem((*place, index), preference, "a mapping with 'provider' and 'model'"))
    return preferences


def _read_mapping(
    given: Mapping[str, Any], section: str, problems: list[PlanProblem], place: KeyPath = ()
) -> Mapping[str, Any]:
    value = given.get(section)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        example = _EXAMPLES.get(section, "")
        problems.append(_build_problem((*place, section), value, f"a mapping{example}"))
        return {}
    return value


def _read_agent_module(
    session: Mapping[str, Any], kind: str, given: Mapping[str, Any], problems: list[PlanProblem], place: KeyPath
) -> PlannedModule | None:
    """The source and the config of an orchestrator or context are in keys of their own, or in its mapping."""
    value = session.get(kind)
    if value is None:
        return None
    if isinstance(value, str):
        value = {"module": value}
    if isinstance(value, Mapping):
        section = _read_mapping(given, kind, problems, place)
        if (config := section.get("config")) is not None and not isinstance(config, Mapping):
            problems.append(_build_problem((*place, kind, "config"), config, "a mapping"))
            return None
        value = {"source": session.get(f"{kind}_source"), "config": config, **value}
    return _read_module(value, kind, (*place, "session", kind), problems)


def _read_modules(
    plan: Mapping[str, Any], kind: str, problems: list[PlanProblem], place: KeyPath
) -> list[PlannedModule]:
    value = plan.get(kind)
    if value is None:
        return []
    if not isinstance(value, list):
        name = value if isinstance(value, str) else _as_mapping(value).get("module", next(iter(_as_mapping(value)), ""))
        example = f"{kind}: [{{module: {name if re.fullmatch(_MODULE_ID, str(name)) else 'ID'}}}]"
        problems.append(_build_problem((*place, kind), value, f"a list of modules, such as {example}"))
        return []
    found = [_read_module(one, kind, (*place, kind, index), problems) for index, one in enumerate(value)]
    return [spec for spec in found if spec is not None]


def _read_module(value: Any, kind: str, place: KeyPath, problems: list[PlanProblem]) -> PlannedModule | None:
    if isinstance(value, str) and value:
        value = {"module": value}
    if not isinstance(value, Mapping):
        problems.append(_build_problem(place, value, "a module: its name, or a mapping with 'module'"))
        return None
    name, config = value.get("module"), value.get("config")
    spelling_problems = _check_spelling(place, value, _SPEC_KEYS)
    problems += spelling_problems
    if "module" not in value:
        if not spelling_problems:
            keys = ", ".join(map(str, value)) or "none"
            problem = f"expected a mapping with 'module', the id of a module. Its keys are: {keys}"
            problems.append(PlanProblem(place=place, problem=problem, found=value))
        return None
    if not isinstance(name, str) or not name:
        problems.append(_build_problem((*place, "module"), name, "the id of a module"))
        return None
    if config is not None and not isinstance(config, Mapping):
        problems.append(_build_problem((*place, "config"), config, "a mapping"))
        return None
    return PlannedModule(module=name, kind=kind, source=value.get("source"), config=dict(config or {}), place=place)


def _check_spelling(place: KeyPath, given: Mapping[str, Any], names: Sequence[str]) -> list[PlanProblem]:
    """Report keys that are close to a known one. Other keys may belong to a module."""
    similar = {key: find_similar_name(key, names, cutoff=0.8) for key in given if key not in names}
    return [
        PlanProblem(place=(*place, key), problem=f"unknown key '{key}', did you mean '{match}'?", found=given[key])
        for key, match in similar.items()
        if match is not None
    ]


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _build_problem(place: KeyPath, found: Any, expected: str) -> PlanProblem:
    return PlanProblem(place=place, problem=f"expected {expected}", found=found, expects=True)
