"""Reads the YAML of an agent and makes its modules. The only file that imports xaibo, and only when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
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
"""Returns the replacement of the provider with this id for the modules of an agent."""


def read_agent(path: Path, directory: Path) -> Any:
    """Read the AgentConfig of a YAML file, whose classes are importable from its folder and from `directory`.

    Raises SourceError with the place and the problem, but without values of the file.
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
        cause = error.__cause__
        # An empty folder named xaibo is a namespace package, from which no name can be imported.
        if isinstance(cause, ImportError) and (cause.name or "").partition(".")[0] == "xaibo":
            raise SourceError(f"{path}: an agent needs xaibo, which is not installed. {_INSTALL}") from error
        raise
    with report_errors(f"{path} cannot be read as an agent"):
        try:
            config = AgentConfig.from_yaml(text)
        except Exception as error:
            if (message := _format_yaml_error(error)) is not None:
                raise SourceError(f"{path}{message}") from None
            raise
    _check_circles(config, path)
    return config


def find_providers(config: Any) -> list[str]:
    """List the ids of the modules that provide tools, without those whose tools another module collects.

    A ToolCollector of xaibo is replaced by its providers in reverse order, because its last tool of a name counts.
    """
    ids = [module.id for module in config.modules if _is_provider(config, module)]
    parts = {module_id: _list_providers(config, module_id) for module_id in ids}
    inner = {provider_id for module_id in ids for provider_id in parts[module_id] if provider_id in ids}
    providers: list[str] = []
    for module_id in [provider_id for provider_id in ids if provider_id not in inner] or ids:
        providers += [
            provider_id
            for provider_id in _expand_collector(config, module_id, parts, frozenset())
            if provider_id not in providers
        ]
    return providers


def build_module(
    config: Any, module_id: str, modules: Mapping[str, Any], wrap: WrapProvider | None = None
) -> dict[str, Any]:
    """Make a module and the modules that it needs, except those in `modules`. Return all by id.

    `wrap` replaces each provider by what the modules that need it get. Imports nothing else. Raises what their classes
    raise.
    """
    providers = (
        {} if wrap is None else _build_providers(config, _find_needed(config, module_id, modules), modules, wrap)
    )
    return (
        providers
        if module_id in providers
        else providers | _build_instances(config, module_id, {**modules, **providers})
    )


def _build_providers(config: Any, ids: set[str], modules: Mapping[str, Any], wrap: WrapProvider) -> dict[str, Any]:
    """Make the providers among these modules, each after those that it needs, and wrap them."""
    order: TopologicalSorter[str] = TopologicalSorter()
    for exchange in config.exchange:
        if exchange.module is not None:
            order.add(exchange.module, *_to_list(exchange.provider))
    providers = {module.id for module in config.modules if module.id in ids and _is_wrapped(config, module)}
    instances: dict[str, Any] = {}
    for provider_id in [*order.static_order(), *sorted(providers)]:
        if provider_id in providers and provider_id not in instances and provider_id not in modules:
            instances |= _build_instances(config, provider_id, {**modules, **instances})
            instances[provider_id] = wrap(provider_id, instances[provider_id])
    return instances


def _is_wrapped(config: Any, module: Any) -> bool:
    """Whether a module is a provider. A ToolCollector of xaibo is not wrapped, because it only passes calls on."""
    return _is_provider(config, module) and not _is_collector(_import_class(module))


def _build_instances(config: Any, module_id: str, modules: Mapping[str, Any]) -> dict[str, Any]:
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
    """Make the Xaibo object that modules may depend on, and register the agent with it."""
    from xaibo import Xaibo

    host = Xaibo()
    host.registry.known_agent_configs[config.id] = config.model_copy(deep=True)
    host.registry.agent_module_instances[config.id] = {}
    return {_XAIBO: host}


def add_agent_modules(config: Any, modules: dict[str, Any], wrap: WrapProvider) -> None:
    """Make the modules of `scope: agent`, which live longer than one call, and add them to `modules`."""
    from xaibo.core.config import Scope

    for module in config.modules:
        if module.scope == Scope.Agent:
            modules[module.id] = build_module(config, module.id, modules, wrap)[module.id]
            modules[_XAIBO].registry.agent_module_instances[config.id][module.id] = modules[module.id]


def make_agent(config: Any, modules: Mapping[str, Any], wrap: WrapProvider) -> Any:
    """Make a new agent, as xaibo does for each call, whose modules get the providers that `wrap` returns.

    This copies the configuration: xaibo's `get_agent` adds an entry to a shared one in each call, and searches it.
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
    """Return the ids of the modules that take text, by entry point: `__entry__`, or the id if there are several."""
    entry_points: dict[str, str] = {}
    for exchange in config.exchange:
        if exchange.module != ENTRY or not (exchange.protocol == TEXT or _can_take_text(config, exchange.provider)):
            continue
        several = isinstance(exchange.provider, list)
        for provider in _to_list(exchange.provider):
            if provider not in entry_points.values():
                entry_points[provider if several else ENTRY] = provider
    return entry_points


def describe_failure(config: Any, module_id: str | None = None) -> str:
    """Explain in sentences why xaibo cannot make all modules, or those that one needs. Empty if no reason is known."""
    ids = [module.id for module in config.modules] if module_id is None else _find_needed(config, module_id, {})
    classes = [(each, _import_class(each)) for each in config.modules if each.id in ids]
    missing = [f"{each.id} ({each.module})" for each, module_class in classes if module_class is None]
    hint = f"Cannot import {', '.join(missing)}. Install the missing packages, or correct the names"
    lines = [hint] if missing else []
    lines += [
        f"{each.module}: {flaw}"
        for each, module_class in classes
        if module_class is not None and (flaw := _find_flaw(module_class))
    ]
    return "".join(f". {line}" for line in lines)


def _find_flaw(module_class: type) -> str:
    """Explain why xaibo, which reads the annotations of `__init__`, cannot make a class."""
    annotations = getattr(module_class.__init__, "__annotations__", None)  # type: ignore[misc]
    if annotations is None:
        return "it has no __init__ of its own. Define one that takes config"
    if "return" in annotations:
        return "Xaibo reads the return annotation of its __init__ as a module that it needs. Remove that annotation"
    if any(isinstance(annotation, str) for name, annotation in annotations.items() if name != "config"):
        return "Xaibo cannot read annotations of its __init__ that are strings. Remove `from __future__`"
    return ""


def _build_overrides(modules: Mapping[str, Any]) -> Any:
    from xaibo import ConfigOverrides, ExchangeConfig, Xaibo

    exchanges = [ExchangeConfig(protocol=Xaibo, provider=_XAIBO)]
    return ConfigOverrides(instances=dict(modules), exchange=exchanges if _XAIBO in modules else [])


def _format_yaml_error(error: Exception) -> str | None:
    """Return the place in the YAML and the problem, without values of the file."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f":{mark.line + 1}: {getattr(error, 'problem', None) or 'this is not YAML'}"
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return None
    lines = [
        f"{'.'.join(map(str, item['loc'])) or 'the agent'}: {item['msg']}"
        for item in errors(include_input=False, include_url=False, include_context=False)
    ]
    return ": " + "; ".join(lines)


def _is_provider(config: Any, module: Any) -> bool:
    if PROVIDER in (module.provides or ()):
        return True
    if any(exchange.protocol == PROVIDER and module.id in _to_list(exchange.provider) for exchange in config.exchange):
        return True
    module_class = _import_class(module)
    return module_class is not None and all(
        callable(getattr(module_class, name, None)) for name in ("list_tools", "execute_tool")
    )


def _list_providers(config: Any, module_id: str) -> list[str]:
    exchanges = [
        exchange for exchange in config.exchange if exchange.module == module_id and exchange.protocol == PROVIDER
    ]
    return [provider for exchange in exchanges for provider in _to_list(exchange.provider)]


def _expand_collector(
    config: Any, module_id: str, parts: Mapping[str, list[str]], ancestors: frozenset[str]
) -> Iterable[str]:
    module_class = next((_import_class(module) for module in config.modules if module.id == module_id), None)
    if not _is_collector(module_class) or module_id in ancestors:
        yield module_id
        return
    for part in reversed(parts.get(module_id, [])):
        yield from _expand_collector(config, part, parts, ancestors | {module_id})


def _is_collector(module_class: Any) -> bool:
    return module_class is not None and (module_class.__module__, module_class.__name__) == (
        _COLLECTOR,
        "ToolCollector",
    )


def _check_circles(config: Any, path: Path) -> None:
    """Raise SourceError for modules that need each other: xaibo would search for their order forever."""
    order: TopologicalSorter[str] = TopologicalSorter()
    for exchange in config.exchange:
        if exchange.module is not None:
            order.add(exchange.module, *_to_list(exchange.provider))
    try:
        order.prepare()
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


def _can_take_text(config: Any, provider: Any) -> bool:
    ids = _to_list(provider)
    return all(
        callable(getattr(_import_class(module), "handle_text", None)) for module in config.modules if module.id in ids
    )


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
