"""The plan of an agent that another one starts: its configuration laid over the plan of the agent that starts it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from mcp_bridge._contracts.similar_names import find_similar_name
from mcp_bridge._integrations.amplifier.mount_plan import (
    MODULE_SECTIONS,
    MountPlan,
    PlannedAgent,
    PlannedModule,
    dump_module,
    normalize_config,
    read_agent,
)
from mcp_bridge._integrations.amplifier.session import ModuleSession

logger = logging.getLogger("mcp_bridge.amplifier")

_KINDS = ("orchestrator", "context")
_PROVIDER_CHOICE = "default_provider"


def overlay_plan(parent: MountPlan, agent: PlannedAgent, orchestrator_config: Mapping[str, Any]) -> MountPlan:
    """Return the parent's plan as an agent changes it. Hooks are those of both; the agent's providers come first.

    The configuration of the agent takes precedence over `orchestrator_config`, and that over the parent's.
    """
    orchestrator = _overlay_single(parent.orchestrator, agent, "orchestrator", orchestrator_config)
    own_providers = agent.plan.get_section("providers")
    if own_providers and orchestrator is not None and _PROVIDER_CHOICE not in _get_own_config(agent):
        orchestrator = drop_default_provider(orchestrator)
    return MountPlan(
        orchestrator=orchestrator,
        context=_overlay_single(parent.context, agent, "context", {}),
        modules=[spec for kind in MODULE_SECTIONS for spec in _overlay_section(parent, agent.plan, kind)],
        agents=_select_agents(parent.agents, agent.agents),
        session=_merge(_drop_modules(parent.session), _drop_modules(agent.plan.session)),
    )


def exclude_hooks(plan: MountPlan, own: Collection[str], inheritance: Mapping[str, Sequence[str]]) -> MountPlan:
    """Return a plan without the hook modules that are not inherited; those in `own` stay."""
    kept = [
        spec
        for spec in plan.modules
        if spec.kind != "hooks" or spec.module in own or is_inherited(inheritance, "hooks", spec.module)
    ]
    return replace(plan, modules=kept)


def is_inherited(inheritance: Mapping[str, Sequence[str]], kind: str, *names: str) -> bool:
    """Whether a tool or a hook module with one of these names is inherited."""
    excluded, inherited = inheritance.get(f"exclude_{kind}"), inheritance.get(f"inherit_{kind}")
    if inherited is not None:
        return any(name in inherited for name in names)
    return not any(name in (excluded or ()) for name in names)


def is_declared(plan: MountPlan, key: str, names: Any) -> bool:
    """Whether a tool module of a plan has this list under this key of its configuration, at any depth."""
    return any(names == found for spec in plan.get_section("tools") for found in _find_values(spec.config, key))


def find_unknown_names(plan: MountPlan, tools: Collection[str]) -> list[str]:
    """Return a line for each excluded or inherited name that is neither a module of the plan nor one of its tools."""
    modules = [*plan.modules, *plan.list_agent_modules()]
    problems = []
    for agent in (read_agent(str(name), config, plan.agents)[0] for name, config in plan.agents.items()):
        for key, names in agent.inheritance.items():
            kind = key.partition("_")[2]
            known = {spec.module for spec in modules if spec.kind == kind} | set(tools if kind == "tools" else ())
            what = "tool or tool module" if kind == "tools" else "hook module"
            for name in (name for name in names if name not in known):
                match = find_similar_name(name, known)
                hint = f", did you mean '{match}'?" if match is not None else ""
                problems.append(f"agents.{agent.name}.{key}: no {what} '{name}'{hint}")
    return problems


def dump_plan(plan: MountPlan, written: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan in the form that settings use. Further sections are those of the plan as `written`."""
    sections = {kind: [dump_module(spec) for spec in plan.get_section(kind)] for kind in MODULE_SECTIONS}
    others = {key: value for key, value in written.items() if key not in _KINDS}
    return deepcopy({**normalize_config(others, plan), **sections, "agents": dict(plan.agents)})


async def apply_preferences(plan: MountPlan, preferences: Sequence[Any], parent: ModuleSession) -> MountPlan:
    """Return a plan whose first provider is the first available preference, or the same plan if none is available.

    A preference has a `provider`, the id of its module with or without `provider-`, or its name, and a `model`, which
    may be a pattern. `parent` is the session whose providers list their models.
    """
    for preference in preferences:
        provider, model = _read_field(preference, "provider"), _read_field(preference, "model")
        spec = _find_provider(plan, str(provider), parent)
        name = await _resolve_model(spec, str(model), parent) if spec is not None and model else model
        if spec is None or (name is None and model):
            continue
        chosen = {"default_model": name} if name else {}
        config = {**spec.config, **(_read_field(preference, "config") or {}), **chosen}
        others = [one for one in plan.modules if one is not spec]
        orchestrator = drop_default_provider(plan.orchestrator) if plan.orchestrator is not None else None
        return replace(plan, modules=[replace(spec, config=config), *others], orchestrator=orchestrator)
    if preferences:
        logger.warning("none of the preferred providers is available, so the agent uses the first one of the plan")
    return plan


def drop_default_provider(orchestrator: PlannedModule) -> PlannedModule:
    config = {key: value for key, value in orchestrator.config.items() if key != _PROVIDER_CHOICE}
    return replace(orchestrator, config=config)


def _overlay_single(
    parent: PlannedModule | None, agent: PlannedAgent, kind: str, given: Mapping[str, Any]
) -> PlannedModule | None:
    own: PlannedModule | None = getattr(agent.plan, kind)
    if own is None:
        return _merge_module(parent, _merge(given, agent.configs.get(kind, {}))) if parent is not None else None
    if parent is None or own.module != parent.module:
        return replace(own, config=_merge(given, own.config))
    merged = _merge_module(parent, _merge(given, own.config))
    return replace(merged, source=parent.source if own.source is None else own.source)


def _get_own_config(agent: PlannedAgent) -> Mapping[str, Any]:
    own = agent.plan.orchestrator
    return own.config if own is not None else agent.configs.get("orchestrator", {})


def _overlay_section(parent: MountPlan, agent: MountPlan, kind: str) -> list[PlannedModule]:
    """A module that both have is that of the parent with the agent's configuration on top."""
    inherited, own = parent.get_section(kind), agent.get_section(kind)
    by_name = {spec.module: spec for spec in reversed(inherited)}
    merged = []
    for spec in own:
        before = by_name.get(spec.module)
        source = spec.source if spec.source is not None or before is None else before.source
        merged.append(replace(spec, source=source, config=_merge(before.config if before else {}, spec.config)))
    replaced = {spec.module for spec in own}
    others = [spec for spec in inherited if spec.module not in replaced]
    return [*merged, *others] if kind == "providers" else [*others, *merged]


def _drop_modules(session: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in session.items() if key.removesuffix("_source") not in _KINDS}


def _merge_module(spec: PlannedModule, config: Mapping[str, Any]) -> PlannedModule:
    return replace(spec, config=_merge(spec.config, config))


def _merge(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for key, value in after.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _select_agents(agents: Mapping[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    return {name: config for name, config in agents.items() if names is None or name in names}


def _find_values(config: Any, key: str) -> Iterator[Any]:
    if isinstance(config, Mapping):
        if key in config:
            yield config[key]
        for value in config.values():
            yield from _find_values(value, key)


def _read_field(preference: Any, name: str) -> Any:
    return preference.get(name) if isinstance(preference, Mapping) else getattr(preference, name, None)


def _find_provider(plan: MountPlan, name: str, parent: ModuleSession) -> PlannedModule | None:
    """A provider that the parent could not mount, for example without its key, is unavailable."""
    ids = {name, f"provider-{name}", parent.find_owner("providers", name)}
    found = next((spec for spec in plan.get_section("providers") if spec.module in ids), None)
    if found is None or found.module in parent.list_unmounted():
        return None
    return found


async def _resolve_model(spec: PlannedModule, pattern: str, parent: ModuleSession) -> str | None:
    """Return a name unchanged; for a pattern, the last matching model by name, which is usually the newest."""
    if not any(character in pattern for character in "*?["):
        return pattern
    for name, provider in parent.coordinator.get("providers").items():
        if parent.find_owner("providers", name) != spec.module:
            continue
        try:
            models = [str(getattr(model, "id", model)) for model in await provider.list_models()]
        except Exception as error:
            logger.warning("the provider '%s' cannot list its models: %s", name, error)
            continue
        matching = [model for model in models if fnmatchcase(model.lower(), pattern.lower())]
        if matching:
            return max(matching)
    return None
