"""Xaibo itself, for the YAML of an agent. The one file that imports xaibo, and late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Any

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.runtime.python_import import add_to_path
from mcp_bridge.xaibo.source.importing import INSTALL, report_errors

PROVIDER = "ToolProviderProtocol"
TEXT = "TextMessageHandlerProtocol"
ENTRY = "__entry__"
"""Who a message goes to that names nobody."""
_XAIBO = "__xaibo__"
_COLLECTOR = "xaibo.primitives.modules.tools.tool_collector"


def read(path: Path, directory: Path) -> Any:
    """The AgentConfig in a YAML file, whose classes are importable from its folder and from `directory`.

    Raises SourceError saying where and what is wrong, without what stands there.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {type(error).__name__}"
        raise SourceError(f"{path}: {problem}") from error
    for folder in (directory, path.parent):
        add_to_path(folder)
    try:
        with report_errors("xaibo cannot be imported"):
            from xaibo import AgentConfig
    except SourceError as error:
        if "is not installed" in str(error) or "cannot import name" in str(error):  # an empty folder is a namespace
            raise SourceError(f"{path}: an agent needs xaibo, which is not installed. {INSTALL}") from error
        raise
    with report_errors(f"{path} cannot be read as an agent"):
        try:
            config = AgentConfig.from_yaml(text)
        except Exception as error:
            if (found := _found(error)) is not None:
                raise SourceError(f"{path}{found}") from None
            raise
    _refuse_circles(config, path)
    return config


def providers(config: Any) -> list[str]:
    """The ids of the modules that provide tools, but of those that others collect only the others.

    xaibo's own collectors stand for what they collect, the last first: of two tools of one name that one counts.
    """
    ids = [module.id for module in config.modules if _is_provider(config, module)]
    collected = {each: _providers_of(config, each) for each in ids}
    inner = {one for each in ids for one in collected[each] if one in ids}
    made: list[str] = []
    for each in [one for one in ids if one not in inner] or ids:
        made += [one for one in _flat(config, each, collected, frozenset()) if one not in made]
    return made


def build(config: Any, module_id: str, kept: Mapping[str, Any]) -> dict[str, Any]:
    """A module, and the modules that it needs and that are not `kept` already, by id. Nothing else is imported.

    Raises what their classes raise.
    """
    from xaibo.core.exchange import Exchange

    cut = config.model_copy(deep=True)
    needed = _needed(config, module_id, kept)
    cut.modules = [module for module in cut.modules if module.id in needed]
    cut.exchange = [one for one in cut.exchange if one.module is None or one.module in needed]
    made = Exchange(cut, override_config=_overrides(kept)).module_instances
    return {name: instance for name, instance in made.items() if name != "__exchange__"}


def host(config: Any) -> dict[str, Any]:
    """What modules may ask for beside other modules: a Xaibo that knows the agent."""
    from xaibo import Xaibo

    made = Xaibo()
    made.registry.known_agent_configs[config.id] = config.model_copy(deep=True)
    made.registry.agent_module_instances[config.id] = {}
    return {_XAIBO: made}


def keep_lasting(config: Any, kept: dict[str, Any]) -> None:
    """Make the modules that live as long as the agent, rather than one call (`scope: agent`), and keep them."""
    from xaibo.core.config import Scope

    for module in config.modules:
        if module.scope == Scope.Agent:
            kept[module.id] = build(config, module.id, kept)[module.id]
            kept[_XAIBO].registry.agent_module_instances[config.id][module.id] = kept[module.id]


def agent(config: Any, kept: Mapping[str, Any]) -> Any:
    """A new agent, as xaibo makes one for each call.

    Its own `get_agent` lengthens the exchange of one shared configuration by an entry for each call, and searches all
    of it; this is of a copy.
    """
    from xaibo import Agent
    from xaibo.core.exchange import Exchange

    return Agent(config.id, Exchange(config.model_copy(deep=True), override_config=_overrides(kept)))


def entry_points(config: Any) -> dict[str, str]:
    """The ids of the modules that take text from outside, by the name of the entry point: `__entry__` is the only one.

    Those of a list have their own ids for names.
    """
    found: dict[str, str] = {}
    for exchange in config.exchange:
        if exchange.module != ENTRY or not (exchange.protocol == TEXT or _takes_text(config, exchange.provider)):
            continue
        several = isinstance(exchange.provider, list)
        for provider in _listed(exchange.provider):
            if provider not in found.values():
                found[provider if several else ENTRY] = provider
    return found


def settings_of(config: Any) -> list[Any]:
    """The configurations of all modules."""
    return [module.config for module in config.modules]


def causes(config: Any, module_id: str | None = None) -> str:
    """What keeps Xaibo from making modules, all or those that one needs, in sentences; or nothing."""
    ids = [module.id for module in config.modules] if module_id is None else _needed(config, module_id, {})
    found = [(each, _class_of(each)) for each in config.modules if each.id in ids]
    missing = [f"{each.id} ({each.module})" for each, kind in found if kind is None]
    hint = f"What cannot be imported: {', '.join(missing)}. Install the packages that these need, or mend the names"
    lines = [hint] if missing else []
    lines += [f"{each.module}: {odd}" for each, kind in found if kind is not None and (odd := _oddity(kind))]
    return "".join(f". {line}" for line in lines)


def _oddity(kind: type) -> str:
    """Why Xaibo cannot make such a class, which it does by the annotations of `__init__`."""
    annotations = getattr(kind.__init__, "__annotations__", None)  # type: ignore[misc]
    if annotations is None:
        return "it has no __init__ of its own, which takes config"
    if "return" in annotations:
        return "Xaibo takes the return annotation of its __init__ for a module that it needs; leave that out"
    if any(isinstance(each, str) for name, each in annotations.items() if name != "config"):
        return "Xaibo cannot read annotations of its __init__ that are text; leave `from __future__` out"
    return ""


def _overrides(kept: Mapping[str, Any]) -> Any:
    from xaibo import ConfigOverrides, ExchangeConfig, Xaibo

    known = [ExchangeConfig(protocol=Xaibo, provider=_XAIBO)]
    return ConfigOverrides(instances=dict(kept), exchange=known if _XAIBO in kept else [])


def _found(error: Exception) -> str | None:
    """Where in the YAML something is wrong and what, without the values that stand there."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f":{mark.line + 1}: {getattr(error, 'problem', None) or 'this is no YAML'}"
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return None
    lines = [
        f"{'.'.join(map(str, each['loc'])) or 'the agent'}: {each['msg']}"
        for each in errors(include_input=False, include_url=False, include_context=False)
    ]
    return ": " + "; ".join(lines)


def _is_provider(config: Any, module: Any) -> bool:
    """By what it says, by what the exchange has it for, or by its methods."""
    if PROVIDER in (module.provides or ()):
        return True
    if any(one.protocol == PROVIDER and module.id in _listed(one.provider) for one in config.exchange):
        return True
    kind = _class_of(module)
    return kind is not None and all(callable(getattr(kind, name, None)) for name in ("list_tools", "execute_tool"))


def _providers_of(config: Any, module_id: str) -> list[str]:
    """The providers that a module gets, in order."""
    relevant = [one for one in config.exchange if one.module == module_id and one.protocol == PROVIDER]
    return [provider for one in relevant for provider in _listed(one.provider)]


def _flat(config: Any, module_id: str, collected: Mapping[str, list[str]], seen: frozenset[str]) -> Iterable[str]:
    kind = next((_class_of(module) for module in config.modules if module.id == module_id), None)
    is_collector = kind is not None and (kind.__module__, kind.__name__) == (_COLLECTOR, "ToolCollector")
    if not is_collector or module_id in seen:
        yield module_id
        return
    for each in reversed(collected.get(module_id, [])):
        yield from _flat(config, each, collected, seen | {module_id})


def _refuse_circles(config: Any, path: Path) -> None:
    """Raises SourceError for modules that wait for each other: Xaibo would look for their order for ever."""
    order: TopologicalSorter[str] = TopologicalSorter()
    for one in config.exchange:
        if one.module is not None:
            order.add(one.module, *_listed(one.provider))
    try:
        order.prepare()
    except CycleError as error:
        circle = " needs ".join(f"'{module}'" for module in reversed(error.args[1]))
        raise SourceError(f"{path}: exchange: {circle}. Have one of them do without") from None


def _needed(config: Any, module_id: str, kept: Mapping[str, Any]) -> set[str]:
    """A module and what it depends on by the exchange; what is there already depends on nothing."""
    needed: set[str] = set()
    waiting = [module_id]
    while waiting:
        current = waiting.pop()
        if current in needed or current in kept:
            continue
        needed.add(current)
        for one in config.exchange:
            if one.module == current:
                waiting += _listed(one.provider)
    return needed


def _takes_text(config: Any, provider: Any) -> bool:
    ids = _listed(provider)
    return all(
        callable(getattr(_class_of(module), "handle_text", None)) for module in config.modules if module.id in ids
    )


def _class_of(module: Any) -> Any:
    """The class of a module; None where it cannot be imported, as one of a package that is not installed."""
    name, _, attribute = str(module.module).rpartition(".")
    try:
        found = getattr(import_module(name), attribute)
    except Exception:
        return None
    return found if isinstance(found, type) else None


def _listed(provider: Any) -> list[str]:
    return list(provider) if isinstance(provider, list | tuple) else [provider]
