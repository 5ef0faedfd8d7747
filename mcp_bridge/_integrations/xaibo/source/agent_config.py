"""Reads the YAML of an agent and makes its modules. Only this file imports xaibo, and only when an agent needs it.

An agent consists of modules: a language model, an orchestrator, tool providers, a collector of providers. Its
`exchange` connects them. xaibo makes all modules for each call. The bridge also makes single
modules with their dependencies, to publish their tools, and replaces the providers of an agent by wrappers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.python_import import add_to_path, report_errors

_INSTALL = "Run: pip install 'xaibo>=0.3,<0.4'"
PROVIDER = "ToolProviderProtocol"
TEXT = "TextMessageHandlerProtocol"
ENTRY = "__entry__"
"""The entry point of a message without one."""
_XAIBO = "__xaibo__"
_COLLECTOR = "xaibo.primitives.modules.tools.tool_collector"
WrapProvider = Callable[[str, Any], Any]
"""Takes the id of a provider and the provider, and returns its replacement for the modules of an agent."""


def read_agent(path: Path, directory: Path) -> Any:
    """Read the AgentConfig of a YAML file. Classes are importable from its folder and from `directory`.

    Raises SourceError with the place and the problem, but without values of the file.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise SourceError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: cannot be read: {type(error).__name__}") from error
    for folder in (directory, path.parent):
        add_to_path(folder)
    try:
        with report_errors("xaibo cannot be imported"):
            from xaibo import AgentConfig
    except SourceError as error:
        cause = error.__cause__
        # An empty folder named xaibo is a namespace package, from which no name can be imported.
        if isinstance(cause, ImportError) and (cause.name or "").partition(".")[0] == "xaibo":
            raise SourceError(f"{path}: an agent needs xaibo, which is not installed. {_INSTALL}") from error
        raise
    with report_errors(f"{path} cannot be read as an agent"):
        try:
            config = AgentConfig.from_yaml(text)
        except Exception as error:
            message = _format_yaml_error(error)
            if message is not None:
                raise SourceError(f"{path}{message}") from None
            raise
    _check_circles(config, path)
    return config


def find_providers(config: Any) -> list[str]:
    """List the ids of the modules that provide tools, without those below another provider.

    A ToolCollector of xaibo is replaced by its providers in reverse order, because its last tool of a name counts.
    """
    ids = [module.id for module in config.modules if _is_provider(config, module)]
    inner_providers = {module_id: _list_providers(config, module_id) for module_id in ids}
    inner_ids = set(chain.from_iterable(inner_providers.values()))
    outer_ids = [module_id for module_id in ids if module_id not in inner_ids]
    # A dict keeps the order, and each id once.
    providers: dict[str, None] = {}
    for module_id in outer_ids or ids:
        providers |= dict.fromkeys(_expand_collector(config, module_id, inner_providers, frozenset()))
    return list(providers)


def build_module(
    config: Any, module_id: str, modules: Mapping[str, Any], wrap: WrapProvider | None = None
) -> dict[str, Any]:
    """Make a module and its dependencies, except those in `modules`. Return all new modules by their ids.

    The modules get their providers from `wrap`, if it is given. The classes of other modules are not imported. Raises
    any error of the classes.
    """
    instances: dict[str, Any] = {}
    if wrap is not None:
        instances = _build_providers(config, _find_needed(config, module_id, modules), modules, wrap)
    if module_id not in instances:
        instances |= _build_instances(config, module_id, {**modules, **instances})
    return instances


def _build_providers(config: Any, ids: set[str], modules: Mapping[str, Any], wrap: WrapProvider) -> dict[str, Any]:
    """Make the providers among these modules, each after its dependencies, and wrap them.

    A ToolCollector of xaibo is not wrapped, because it only passes calls on.
    """
    providers = set()
    for module in config.modules:
        if module.id in ids and _is_provider(config, module) and not _is_collector(_import_class(module)):
            providers.add(module.id)
    instances: dict[str, Any] = {}
    for provider_id in chain(_sort_modules(config).static_order(), sorted(providers)):
        if provider_id in providers and provider_id not in instances and provider_id not in modules:
            instances |= _build_instances(config, provider_id, {**modules, **instances})
            instances[provider_id] = wrap(provider_id, instances[provider_id])
    return instances


def _sort_modules(config: Any) -> TopologicalSorter[str]:
    """Return a sorter of the modules by their dependencies in the exchange."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for exchange in config.exchange:
        if exchange.module is not None:
            sorter.add(exchange.module, *_to_list(exchange.provider))
    return sorter


def _build_instances(config: Any, module_id: str, modules: Mapping[str, Any]) -> dict[str, Any]:
    """Make a module and its dependencies with an Exchange of xaibo. Its configuration has only these modules."""
    from xaibo.core.exchange import Exchange

    smaller_config = config.model_copy(deep=True)
    module_ids = _find_needed(config, module_id, modules)
    smaller_config.modules = [module for module in smaller_config.modules if module.id in module_ids]
    smaller_config.exchange = [
        exchange for exchange in smaller_config.exchange if exchange.module is None or exchange.module in module_ids
    ]
    instances = Exchange(smaller_config, override_config=_build_overrides(modules)).module_instances
    return {name: instance for name, instance in instances.items() if name != "__exchange__"}


def make_host(config: Any) -> dict[str, Any]:
    """Make the Xaibo object, on which modules may depend, and register the agent with it."""
    from xaibo import Xaibo

    host = Xaibo()
    host.registry.known_agent_configs[config.id] = config.model_copy(deep=True)
    host.registry.agent_module_instances[config.id] = {}
    return {_XAIBO: host}


def add_agent_modules(config: Any, modules: dict[str, Any], wrap: WrapProvider) -> None:
    """Make the modules of `scope: agent`, and add them to `modules`. They live longer than one call."""
    from xaibo.core.config import Scope

    for module in config.modules:
        if module.scope == Scope.Agent:
            modules[module.id] = build_module(config, module.id, modules, wrap)[module.id]
            modules[_XAIBO].registry.agent_module_instances[config.id][module.id] = modules[module.id]


def make_agent(config: Any, modules: Mapping[str, Any], wrap: WrapProvider) -> Any:
    """Make a new agent, as xaibo does for each call. Its modules get the providers of `wrap`.

    Unlike xaibo's `get_agent`, this copies the configuration. `get_agent` adds an entry to a shared configuration in
    each call and searches all entries, so calls would take longer and longer.
    """
    from xaibo import Agent
    from xaibo.core.exchange import Exchange

    instances = {**modules, **_build_providers(config, {module.id for module in config.modules}, modules, wrap)}
    return Agent(config.id, Exchange(config.model_copy(deep=True), override_config=_build_overrides(instances)))


def make_tool_result(*, success: bool, result: Any, error: str | None) -> Any:
    """Make a result of xaibo, as the modules of an agent get it from a provider."""
    from xaibo.core.models import ToolResult

    return ToolResult(success=success, result=result, error=error)


def find_entry_points(config: Any) -> dict[str, str]:
    """Return the ids of the modules for text, by the names of their entry points.

    The name is ENTRY, or the id of the module if the configuration lists several modules.
    """
    entry_points: dict[str, str] = {}
    for exchange in config.exchange:
        if exchange.module != ENTRY:
            continue
        ids = _to_list(exchange.provider)
        classes = [_import_class(module) for module in config.modules if module.id in ids]
        if exchange.protocol != TEXT and not all(callable(getattr(item, "handle_text", None)) for item in classes):
            continue
        has_several = isinstance(exchange.provider, list)
        for provider in ids:
            if provider not in entry_points.values():
                entry_points[provider if has_several else ENTRY] = provider
    return entry_points


def describe_failure(config: Any, module_id: str | None = None) -> str:
    """Explain why xaibo cannot make a module and its dependencies, or all modules; empty if the reason is unknown."""
    ids = None if module_id is None else _find_needed(config, module_id, {})
    missing, flaws = [], []
    for module in config.modules:
        if ids is not None and module.id not in ids:
            continue
        module_class = _import_class(module)
        if module_class is None:
            missing.append(f"{module.id} ({module.module})")
        else:
            flaw = _find_flaw(module_class)
            if flaw:
                flaws.append(f". {module.module}: {flaw}")
    text = "".join(flaws)
    if missing:
        text = f". Cannot import {', '.join(missing)}. Install the missing packages, or correct the names{text}"
    return text


def _find_flaw(module_class: type) -> str:
    """Explain why xaibo cannot make a class. It finds the dependencies in the annotations of `__init__`."""
    annotations = getattr(module_class.__init__, "__annotations__", None)  # type: ignore[misc]
    if annotations is None:
        return "it has no __init__ of its own. Define one that takes config"
    if "return" in annotations:
        return "Xaibo reads the return annotation of its __init__ as a module that it needs. Remove that annotation"
    if any(isinstance(annotation, str) for name, annotation in annotations.items() if name != "config"):
        return "Xaibo cannot read annotations of its __init__ that are strings. Remove `from __future__`"
    return ""


def _build_overrides(modules: Mapping[str, Any]) -> Any:
    """Return the overrides for an Exchange, to use these modules instead of making them."""
    from xaibo import ConfigOverrides, ExchangeConfig, Xaibo

    exchanges = []
    if _XAIBO in modules:
        exchanges.append(ExchangeConfig(protocol=Xaibo, provider=_XAIBO))
    return ConfigOverrides(instances=dict(modules), exchange=exchanges)


def _format_yaml_error(error: Exception) -> str | None:
    """Return the place in the YAML and the problem, without values of the file."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f":{mark.line + 1}: {getattr(error, 'problem', None) or 'this is not YAML'}"
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return None
    lines = []
    for item in errors(include_input=False, include_url=False, include_context=False):
        place = ".".join(map(str, item["loc"])) or "the agent"
        lines.append(f"{place}: {item['msg']}")
    return ": " + "; ".join(lines)


def _is_provider(config: Any, module: Any) -> bool:
    if PROVIDER in (module.provides or ()):
        return True
    for exchange in config.exchange:
        if exchange.protocol == PROVIDER and module.id in _to_list(exchange.provider):
            return True
    module_class = _import_class(module)
    return all(callable(getattr(module_class, name, None)) for name in ("list_tools", "execute_tool"))


def _list_providers(config: Any, module_id: str) -> list[str]:
    providers = []
    for exchange in config.exchange:
        if exchange.module == module_id and exchange.protocol == PROVIDER:
            providers += _to_list(exchange.provider)
    return providers


def _expand_collector(
    config: Any, module_id: str, inner_providers: Mapping[str, list[str]], ancestors: frozenset[str]
) -> Iterable[str]:
    """Yield a provider, or those of a ToolCollector in reverse order. `ancestors` prevents an endless search."""
    module_class = next((_import_class(module) for module in config.modules if module.id == module_id), None)
    if not _is_collector(module_class) or module_id in ancestors:
        yield module_id
        return
    for inner_id in reversed(inner_providers.get(module_id, [])):
        yield from _expand_collector(config, inner_id, inner_providers, ancestors | {module_id})


def _is_collector(module_class: Any) -> bool:
    if module_class is None:
        return False
    return bool(module_class.__module__ == _COLLECTOR and module_class.__name__ == "ToolCollector")


def _check_circles(config: Any, path: Path) -> None:
    """Raise SourceError for modules that need each other: xaibo would search for their order forever."""
    try:
        _sort_modules(config).prepare()
    except CycleError as error:
        circle = " needs ".join(f"'{module}'" for module in reversed(error.args[1]))
        raise SourceError(f"{path}: exchange: {circle}. Remove one of these dependencies") from None


def _find_needed(config: Any, module_id: str, modules: Mapping[str, Any]) -> set[str]:
    """Return the ids of a module and its dependencies in the exchange, except those in `modules`."""
    module_ids: set[str] = set()
    waiting = [module_id]
    while waiting:
        current = waiting.pop()
        if current in module_ids or current in modules:
            continue
        module_ids.add(current)
        for exchange in config.exchange:
            if exchange.module == current:
                waiting += _to_list(exchange.provider)
    return module_ids


def _import_class(module: Any) -> Any:
    """Import the class of a module. Return None if that fails, for example because a package is not installed."""
    name, _, attribute = str(module.module).rpartition(".")
    try:
        value = getattr(import_module(name), attribute)
    except Exception:
        return None
    return value if isinstance(value, type) else None


def _to_list(provider: Any) -> list[str]:
    return list(provider) if isinstance(provider, list | tuple) else [provider]
