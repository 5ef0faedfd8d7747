"""Mount plans: the modules of a session (MOUNT_PLAN_SPECIFICATION, as far as the contracts show it)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MODULE_SECTIONS = ("providers", "tools", "hooks")  # sections that are lists of modules
PLAN_SECTIONS = ("session", *MODULE_SECTIONS, "agents")
_AGENT_KINDS = ("orchestrator", "context")
_SPEC_KEYS = ("module", "source", "config")

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    """A problem in a plan, with its place and the value found there."""

    place: KeyPath
    problem: str
    found: Any = None

    @property
    def path(self) -> str:
        """The place as text, for example `tools[0].module`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)
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


def read_plan(given: Any) -> tuple[MountPlan, list[PlanProblem]]:
    """Read a plan; return it without its invalid parts, and the problems."""
    if not isinstance(given, Mapping):
        return MountPlan(), [_build_problem((), given, "a mapping")]
    problems: list[PlanProblem] = []
    session = _read_mapping(given, "session", problems)
    agents = _read_mapping(given, "agents", problems)
    problems += _check_spelling((), given, (*PLAN_SECTIONS, *_AGENT_KINDS))
    problems += _check_spelling(("session",), session, (*_AGENT_KINDS, *(f"{kind}_source" for kind in _AGENT_KINDS)))
    agent = {kind: _read_agent_module(session, kind, given, problems) for kind in _AGENT_KINDS}
    modules = [spec for kind in MODULE_SECTIONS for spec in _read_modules(given, kind, problems)]
    plan = MountPlan(
        orchestrator=agent["orchestrator"], context=agent["context"], modules=modules, agents=agents, session=session
    )
    return plan, problems


def _read_mapping(given: Mapping[str, Any], section: str, problems: list[PlanProblem]) -> Mapping[str, Any]:
    value = given.get(section)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.append(_build_problem((section,), value, "a mapping"))
        return {}
    return value


def _read_agent_module(
    session: Mapping[str, Any], kind: str, given: Mapping[str, Any], problems: list[PlanProblem]
) -> PlannedModule | None:
    """The source and the config of an orchestrator or context are in keys of their own, or in its mapping."""
    value = session.get(kind)
    if value is None:
        return None
    if isinstance(value, str):
        value = {"module": value}
    if isinstance(value, Mapping):
        section = _read_mapping(given, kind, problems)
        if (config := section.get("config")) is not None and not isinstance(config, Mapping):
            problems.append(_build_problem((kind, "config"), config, "a mapping"))
            return None
        value = {"source": session.get(f"{kind}_source"), "config": config, **value}
    return _read_module(value, kind, ("session", kind), problems)


def _read_modules(given: Mapping[str, Any], kind: str, problems: list[PlanProblem]) -> list[PlannedModule]:
    value = given.get(kind)
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(_build_problem((kind,), value, "a list of modules"))
        return []
    found = [_read_module(one, kind, (kind, index), problems) for index, one in enumerate(value)]
    return [spec for spec in found if spec is not None]


def _read_module(value: Any, kind: str, place: KeyPath, problems: list[PlanProblem]) -> PlannedModule | None:
    if isinstance(value, str) and value:
        value = {"module": value}
    if not isinstance(value, Mapping):
        problems.append(_build_problem(place, value, "a module: its name, or a mapping with 'module'"))
        return None
    name, config = value.get("module"), value.get("config")
    misspelled = _check_spelling(place, value, _SPEC_KEYS)
    problems += misspelled
    if not isinstance(name, str) or not name:
        if "module" in value or not misspelled:
            problems.append(_build_problem((*place, "module"), name, "the id of a module"))
        return None
    if config is not None and not isinstance(config, Mapping):
        problems.append(_build_problem((*place, "config"), config, "a mapping"))
        return None
    return PlannedModule(module=name, kind=kind, source=value.get("source"), config=dict(config or {}), place=place)


def _check_spelling(place: KeyPath, given: Mapping[str, Any], known: Sequence[str]) -> list[PlanProblem]:
    """Report keys that are close to a known one. Other keys may belong to a module."""
    near = {key: difflib.get_close_matches(str(key)[:100], known, n=1, cutoff=0.8) for key in given if key not in known}
    return [
        PlanProblem(place=(*place, key), problem=f"unknown key '{key}', did you mean '{match[0]}'?", found=given[key])
        for key, match in near.items()
        if match
    ]


def _build_problem(place: KeyPath, found: Any, expected: str) -> PlanProblem:
    return PlanProblem(place=place, problem=f"expected {expected}", found=found)
