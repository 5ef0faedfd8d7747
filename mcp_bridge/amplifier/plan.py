"""Mount plans: which modules a session has (MOUNT_PLAN_SPECIFICATION, as far as the contracts show it)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KINDS = ("providers", "tools", "hooks")
"""The sections that are lists of modules."""
SECTIONS = ("session", *KINDS, "agents")
_SINGLE = ("orchestrator", "context")
_SPEC = ("module", "source", "config")

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in a plan that cannot be: at which place, what is wrong, and what was found there."""

    place: Place
    problem: str
    found: Any = None

    @property
    def path(self) -> str:
        """The place as text, such as `tools[0].module`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)
        return text.lstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSpec:
    """One module of a plan. `source` says where it is (None: wherever modules are found), `place` where that stands."""

    module: str
    kind: str
    source: Any = None
    config: Mapping[str, Any] = field(default_factory=dict)
    place: Place = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A mount plan, read: a module named by text alone and one with `module`, `source` and `config` are the same."""

    orchestrator: ModuleSpec | None = None
    context: ModuleSpec | None = None
    modules: Sequence[ModuleSpec] = ()
    agents: Mapping[str, Any] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)

    def of(self, kind: str) -> list[ModuleSpec]:
        """The modules of one section, in order."""
        return [spec for spec in self.modules if spec.kind == kind]

    def everything(self) -> list[ModuleSpec]:
        """All modules, in the order in which they are mounted: what others stand on first."""
        single = [spec for spec in (self.orchestrator, self.context) if spec is not None]
        return [*single, *self.modules]


def read(given: Any) -> tuple[Plan, list[Problem]]:
    """A plan from its data, and what is wrong with it; what is wrong is left out of the plan."""
    if not isinstance(given, Mapping):
        return Plan(), [_wrong((), given, "a mapping")]
    problems: list[Problem] = []
    session = _mapping(given, "session", problems)
    agents = _mapping(given, "agents", problems)
    problems += _misspelt((), given, (*SECTIONS, *_SINGLE))
    problems += _misspelt(("session",), session, (*_SINGLE, *(f"{kind}_source" for kind in _SINGLE)))
    single = {kind: _single(session, kind, given, problems) for kind in _SINGLE}
    modules = [spec for kind in KINDS for spec in _listed(given, kind, problems)]
    plan = Plan(
        orchestrator=single["orchestrator"], context=single["context"], modules=modules, agents=agents, session=session
    )
    return plan, problems


def _mapping(given: Mapping[str, Any], section: str, problems: list[Problem]) -> Mapping[str, Any]:
    value = given.get(section)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.append(_wrong((section,), value, "a mapping"))
        return {}
    return value


def _single(
    session: Mapping[str, Any], kind: str, given: Mapping[str, Any], problems: list[Problem]
) -> ModuleSpec | None:
    """The orchestrator, or the context: a name with its source and config beside it, or all in one."""
    value = session.get(kind)
    if value is None:
        return None
    if isinstance(value, str):
        value = {"module": value}
    if isinstance(value, Mapping):
        beside = _mapping(given, kind, problems)
        if (config := beside.get("config")) is not None and not isinstance(config, Mapping):
            problems.append(_wrong((kind, "config"), config, "a mapping"))
            return None
        value = {"source": session.get(f"{kind}_source"), "config": config, **value}
    return _spec(value, kind, ("session", kind), problems)


def _listed(given: Mapping[str, Any], kind: str, problems: list[Problem]) -> list[ModuleSpec]:
    value = given.get(kind)
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(_wrong((kind,), value, "a list of modules"))
        return []
    found = [_spec(one, kind, (kind, index), problems) for index, one in enumerate(value)]
    return [spec for spec in found if spec is not None]


def _spec(value: Any, kind: str, place: Place, problems: list[Problem]) -> ModuleSpec | None:
    if isinstance(value, str) and value:
        value = {"module": value}
    if not isinstance(value, Mapping):
        problems.append(_wrong(place, value, "a module: its name, or a mapping with 'module'"))
        return None
    name, config = value.get("module"), value.get("config")
    misspelt = _misspelt(place, value, _SPEC)
    problems += misspelt
    if not isinstance(name, str) or not name:
        if "module" in value or not misspelt:
            problems.append(_wrong((*place, "module"), name, "the id of a module"))
        return None
    if config is not None and not isinstance(config, Mapping):
        problems.append(_wrong((*place, "config"), config, "a mapping"))
        return None
    return ModuleSpec(module=name, kind=kind, source=value.get("source"), config=dict(config or {}), place=place)


def _misspelt(place: Place, given: Mapping[str, Any], known: Sequence[str]) -> list[Problem]:
    """Keys that are nearly one that means something. Others are the modules' own business."""
    near = {key: difflib.get_close_matches(str(key)[:100], known, n=1, cutoff=0.8) for key in given if key not in known}
    return [
        Problem(place=(*place, key), problem=f"unknown key '{key}', did you mean '{match[0]}'?", found=given[key])
        for key, match in near.items()
        if match
    ]


def _wrong(place: Place, found: Any, expected: str) -> Problem:
    return Problem(place=place, problem=f"expected {expected}", found=found)
