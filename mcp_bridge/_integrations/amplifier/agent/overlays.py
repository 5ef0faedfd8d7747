"""Builds the plan of a subagent: the configuration of the agent laid over the plan of its parent.

For example, a parent has the provider `a`, and its agent declares the provider `b` and the hook module `h`. The
subagent then has the providers `b` and `a`, in this order, the hooks of the parent and `h`, and all other modules of
the parent. If both have the same module, its configuration is the parent's, with the keys of the agent replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from mcp_bridge._contracts.similar_names import find_similar_name
from mcp_bridge._integrations.amplifier.mount_plan import (
    MODULE_SECTIONS,
    SESSION_MODULES,
    MountPlan,
    PlannedAgent,
    PlannedModule,
    dump_module,
    normalize_config,
    read_agent,
)
from mcp_bridge._integrations.amplifier.session import ModuleSession

logger = logging.getLogger("mcp_bridge.amplifier")

# The key of an orchestrator's configuration that names its provider.
_PROVIDER_CHOICE = "default_provider"


def overlay_plan(parent: MountPlan, agent: PlannedAgent, orchestrator_config: Mapping[str, Any]) -> MountPlan:
    """Return the parent's plan as an agent changes it. Hooks are those of both; the agent's providers come first.

    The configuration of the agent takes precedence over `orchestrator_config`, and both over the parent's.
    """
    orchestrator = _overlay_single(parent.orchestrator, agent, "orchestrator", orchestrator_config)
    if agent.plan.orchestrator is not None:
        agent_config = agent.plan.orchestrator.config
    else:
        agent_config = agent.configs.get("orchestrator", {})
    # The provider that the parent has chosen must not win over those of the agent.
    if agent.plan.get_section("providers") and orchestrator is not None and _PROVIDER_CHOICE not in agent_config:
        orchestrator = drop_default_provider(orchestrator)
    modules: list[PlannedModule] = []
    for section in MODULE_SECTIONS:
        modules += _overlay_section(parent, agent.plan, section)
    return MountPlan(
        orchestrator=orchestrator,
        context=_overlay_single(parent.context, agent, "context", {}),
        modules=modules,
        agents={name: config for name, config in parent.agents.items() if agent.agents is None or name in agent.agents},
        session=_merge(_drop_modules(parent.session), _drop_modules(agent.plan.session)),
    )


def exclude_hooks(plan: MountPlan, agent_hooks: Collection[str], inheritance: Mapping[str, Sequence[str]]) -> MountPlan:
    """Return a plan with the hooks of the agent and the inherited ones only."""
    modules = []
    for spec in plan.modules:
        is_kept = spec.section != "hooks" or spec.module in agent_hooks
        if is_kept or is_inherited(inheritance, "hooks", spec.module):
            modules.append(spec)
    return replace(plan, modules=modules)


def is_inherited(inheritance: Mapping[str, Sequence[str]], section: str, *names: str) -> bool:
    """Return whether a tool or a hook module with one of these names is inherited."""
    inherited_names = inheritance.get(f"inherit_{section}")
    if inherited_names is not None:
        return any(name in inherited_names for name in names)
    excluded_names = inheritance.get(f"exclude_{section}") or ()
    return not any(name in excluded_names for name in names)


def is_declared(plan: MountPlan, key: str, names: Any) -> bool:
    """Return whether the configuration of a tool module has this list under this key, at any depth."""
    return any(_has_value(spec.config, key, names) for spec in plan.get_section("tools"))


def find_unknown_names(plan: MountPlan, tools: Collection[str]) -> list[str]:
    """Return a line for each excluded or inherited name without a module or tool in the plan."""
    modules = [*plan.modules, *plan.list_agent_modules()]
    problems = []
    for agent_name, config in plan.agents.items():
        agent, _ = read_agent(str(agent_name), config, plan.agents)
        for key, names in agent.inheritance.items():
            section = key.partition("_")[2]
            choices = {spec.module for spec in modules if spec.section == section}
            subject = "hook module"
            if section == "tools":
                choices.update(tools)
                subject = "tool or tool module"
            for name in names:
                if name in choices:
                    continue
                match = find_similar_name(name, choices)
                hint = f", did you mean '{match}'?" if match is not None else ""
                problems.append(f"agents.{agent.name}.{key}: no {subject} '{name}'{hint}")
    return problems


def dump_plan(plan: MountPlan, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan in the form of settings. Unknown sections come from `config`, the plan of the parent as written."""
    sections: dict[str, Any] = {"agents": dict(plan.agents)}
    for section in MODULE_SECTIONS:
        sections[section] = [dump_module(spec) for spec in plan.get_section(section)]
    # The configurations in these sections belong to the modules, and `normalize_config` writes them there.
    others = {key: value for key, value in config.items() if key not in SESSION_MODULES}
    return deepcopy({**normalize_config(others, plan), **sections})


async def apply_preferences(plan: MountPlan, preferences: Sequence[Any], parent: ModuleSession) -> MountPlan:
    """Return a plan with the first available preference as its first provider, or the same plan if none is available.

    A preference has a `provider`, the id of its module with or without `provider-`, or its name, and a `model` or a
    pattern of models. The providers of the session `parent` list their models.
    """
    for preference in preferences:
        model = read_field(preference, "model")
        spec = _find_provider(plan, str(read_field(preference, "provider")), parent)
        if spec is None:
            continue
        config = {**spec.config, **(read_field(preference, "config") or {})}
        if model:
            model = await _resolve_model(spec, str(model), parent)
            if model is None:
                continue
            config["default_model"] = model
        modules = [replace(spec, config=config)]
        modules += [other for other in plan.modules if other is not spec]
        # The default of the orchestrator would win over the preference.
        orchestrator = drop_default_provider(plan.orchestrator) if plan.orchestrator is not None else None
        return replace(plan, modules=modules, orchestrator=orchestrator)
    if preferences:
        logger.warning("none of the preferred providers is available, so the agent uses the first one of the plan")
    return plan


def drop_default_provider(orchestrator: PlannedModule) -> PlannedModule:
    config = {key: value for key, value in orchestrator.config.items() if key != _PROVIDER_CHOICE}
    return replace(orchestrator, config=config)


def read_field(preference: Any, name: str) -> Any:
    """Return a field of a preference, a mapping or an object."""
    return preference.get(name) if isinstance(preference, Mapping) else getattr(preference, name, None)


def _overlay_single(
    parent: PlannedModule | None, agent: PlannedAgent, section: str, config: Mapping[str, Any]
) -> PlannedModule | None:
    """Return the orchestrator or the context of an agent: its own, or the parent's with its configuration."""
    spec: PlannedModule | None = getattr(agent.plan, section)
    if spec is None:
        if parent is None:
            return None
        return replace(parent, config=_merge(parent.config, _merge(config, agent.configs.get(section, {}))))
    config = _merge(config, spec.config)
    if parent is None or spec.module != parent.module:
        return replace(spec, config=config)
    source = parent.source if spec.source is None else spec.source
    return replace(parent, config=_merge(parent.config, config), source=source)


def _overlay_section(parent: MountPlan, agent: MountPlan, section: str) -> list[PlannedModule]:
    """Return the modules of both. A common one is the parent's with the agent's configuration on top."""
    parent_specs, agent_specs = parent.get_section(section), agent.get_section(section)
    parent_specs_by_name = {spec.module: spec for spec in reversed(parent_specs)}
    overlaid_specs = []
    for spec in agent_specs:
        before = parent_specs_by_name.get(spec.module)
        if before is None:
            overlaid_specs.append(spec)
        else:
            source = before.source if spec.source is None else spec.source
            overlaid_specs.append(replace(spec, source=source, config=_merge(before.config, spec.config)))
    agent_names = {spec.module for spec in agent_specs}
    other_specs = [spec for spec in parent_specs if spec.module not in agent_names]
    # By default, orchestrators use the first provider.
    return overlaid_specs + other_specs if section == "providers" else other_specs + overlaid_specs


def _drop_modules(session: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `session` without the orchestrator, the context and their sources."""
    return {key: value for key, value in session.items() if key.removesuffix("_source") not in SESSION_MODULES}


def _merge(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with the keys of both. The values of `after` take precedence; nested mappings are merged."""
    result = dict(before)
    for key, value in after.items():
        old_value = result.get(key)
        if isinstance(old_value, Mapping) and isinstance(value, Mapping):
            result[key] = _merge(old_value, value)
        else:
            result[key] = value
    return result


def _has_value(config: Any, key: str, value: Any) -> bool:
    if not isinstance(config, Mapping):
        return False
    if key in config and config[key] == value:
        return True
    return any(_has_value(item, key, value) for item in config.values())


def _find_provider(plan: MountPlan, name: str, parent: ModuleSession) -> PlannedModule | None:
    """Return the provider, or None if the parent could not mount it, for example without its key."""
    ids = {name, f"provider-{name}", parent.find_owner("providers", name)}
    unmounted_modules = parent.list_unmounted()
    for spec in plan.get_section("providers"):
        if spec.module in ids:
            return spec if spec.module not in unmounted_modules else None
    return None


async def _resolve_model(spec: PlannedModule, pattern: str, parent: ModuleSession) -> str | None:
    """Return the model of a name or a pattern. A name is returned unchanged, because not every provider lists models.

    Of several matching models, the last one by name is returned, because it is usually the newest.
    """
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
