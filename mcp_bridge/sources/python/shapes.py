"""What a module offers. Tools are found by their shape, so that nobody has to inherit from us or import us.

Entries, registries, chains, functions marked with `tool_entry`, functions that carry codomyrmex's `_mcp_tool_meta`, and
single tools of other frameworks. Resources and prompts are entries of ours, functions marked with one, and what a
registry has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeVar

from mcp_bridge.authoring import tool
from mcp_bridge.contracts.errors import SourceError, ToolError
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.prompt import PromptEntry
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.frameworks.finding import Finds
from mcp_bridge.frameworks.recognising import is_foreign

T = TypeVar("T")


def find(module: ModuleType, named: Iterable[str] = ()) -> Offer:
    """What the module offers, in the order of its definition; functions in `named` are inferred as tools.

    Raises SourceError for a name that is not there or cannot be a tool.
    """
    values = [
        (name, value)
        for name, value in vars(module).items()
        if not name.startswith("__") and not isinstance(value, type | ModuleType)
    ]
    tools = [entry for name, value in values for entry in _entries(name, value)]
    others = [entry for _, value in values for entry in _held(value)]
    return Offer(
        tools=[*tools, *(_named(module, name) for name in named)],
        resources=[entry for entry in others if isinstance(entry, ResourceEntry)],
        templates=[entry for entry in others if isinstance(entry, ResourceTemplate)],
        prompts=[entry for entry in others if isinstance(entry, PromptEntry)],
    )


def find_foreign(module: ModuleType, named: Iterable[str], finds: Finds) -> list[str]:
    """Take in what is of another framework: single tools wherever they stand, sets of tools where they are `named`.

    Opening a set may start a process or connect somewhere, so nobody's is opened unasked. The names that are left.
    """
    here = f"{module.__name__}:"
    left = []
    for name in named:
        value = getattr(module, name, None)
        if not (_may_be_foreign(value) and finds.add(here + name, value)):
            left.append(name)
    for name, value in vars(module).items():
        if not name.startswith("_") and is_foreign(value) and not issubclass(type(value), type):
            finds.add_tool(here + name, value)
    return left


def _may_be_foreign(value: Any) -> bool:
    return type(value) in (list, tuple, dict) or is_foreign(value)


def joined(offers: Sequence[Offer], problems: Sequence[str]) -> Offer:
    """All offers as one, with each thing once."""
    return Offer(
        tools=_distinct((entry for offer in offers for entry in offer.tools), "name"),
        resources=_distinct((entry for offer in offers for entry in offer.resources), "uri"),
        templates=_distinct((entry for offer in offers for entry in offer.templates), "uri_template"),
        prompts=_distinct((entry for offer in offers for entry in offer.prompts), "name"),
        problems=problems,
    )


def _distinct(entries: Iterable[T], key: str) -> list[T]:
    """Each thing once: one that a registry holds and a file imports is the same by name and handler."""
    name, handler = attrgetter(key), attrgetter("handler")
    kept: dict[str, list[T]] = {}
    for entry in entries:
        same_name = kept.setdefault(name(entry), [])
        if not any(handler(other) == handler(entry) for other in same_name):
            same_name.append(entry)
    return [entry for same_name in kept.values() for entry in same_name]


def _held(value: Any) -> Iterator[Any]:
    """The value itself, what it is marked with, and what it holds besides tools, when it is a registry."""
    yield value
    if callable(value):
        yield from (getattr(value, name) for name in ("resource_entry", "prompt_entry") if _has(value, name))
    if _is_registry(value):
        catalogs = [getattr(value, name) for name in ("resources", "templates", "prompts") if _has(value, name)]
        for catalog in catalogs:
            yield from catalog if isinstance(catalog, Iterable) else ()


def _entries(name: str, value: Any) -> Iterator[ToolEntry]:
    for fits, make in _SHAPES:
        if fits(value):
            yield from make(name, value)
            return


def _has(value: Any, *names: str) -> bool:
    """Whether the object's own class or instance has these; objects that answer to every name do not count."""
    try:
        return all(hasattr(value, name) for name in names) and not hasattr(value, "no_such_attribute_anywhere")
    except Exception:  # a stranger's __getattr__
        return False


def _is_entry(value: Any) -> bool:
    return _has(value, "name", "description", "handler", "input_schema") and callable(value.handler)


def _is_registry(value: Any) -> bool:
    return _has(value, "list", "list_names", "register", "get") and callable(value.list)


def _is_chain(value: Any) -> bool:
    return _has(value, "steps", "execute", "add_step") and callable(value.execute)


def _is_marked(value: Any) -> bool:
    return callable(value) and _has(value, "tool_entry") and _is_entry(value.tool_entry)


def _is_codomyrmex(value: Any) -> bool:
    return callable(value) and _has(value, "_mcp_tool_meta") and isinstance(value._mcp_tool_meta, Mapping)


def _from_entry(_: str, value: Any) -> Iterator[ToolEntry]:
    """Ours as it is; another package's entry by its fields."""
    if isinstance(value, ToolEntry):
        yield value
        return
    yield ToolEntry(
        str(value.name),
        str(value.description or ""),
        value.handler,
        value.input_schema or {},
        getattr(value, "output_schema", None) or {},
        list(getattr(value, "tags", None) or ()),
    )


def _from_registry(name: str, value: Any) -> Iterator[ToolEntry]:
    for entry in value.list():
        yield from _from_entry(name, entry)


def _from_chain(name: str, value: Any) -> Iterator[ToolEntry]:
    """One tool, by the variable's name."""
    if hasattr(value, "as_tool"):
        yield value.as_tool(name)
    else:
        steps = ", ".join(str(getattr(step, "tool_name", step)) for step in value.steps)
        yield ToolEntry(name, f"Runs in order: {steps}.", partial(_execute, value))


def _execute(chain: Any, data: Any) -> Any:
    """Run another package's chain; its errors are for the model."""
    result = chain.execute(dict(data or {}))
    if not result.success:
        raise ToolError(f"Chain failed: {'; '.join(result.errors)}", code="chain_failed")
    return result.context


def _from_marked(name: str, value: Any) -> Iterator[ToolEntry]:
    yield from _from_entry(name, value.tool_entry)


def _from_codomyrmex(name: str, value: Any) -> Iterator[ToolEntry]:
    meta = value._mcp_tool_meta
    schema = meta.get("schema") or {}
    yield ToolEntry(
        str(meta.get("name") or name),
        str(meta.get("description") or value.__doc__ or ""),
        _with_keywords(value),
        schema.get("inputSchema", schema) if isinstance(schema, dict) else {},
        {},
        [str(tag) for tag in meta.get("tags") or ()],
    )


def _with_keywords(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda data: function(**(data or {}))


def _named(module: ModuleType, name: str) -> ToolEntry:
    function = getattr(module, name, None)
    if not callable(function):
        raise SourceError(f"{module.__file__}: there is no function '{name}', which the settings name as a tool")
    entry = getattr(function, "tool_entry", None)
    if isinstance(entry, ToolEntry):
        return entry
    try:
        made: Any = tool()(partial(function) if isinstance(function, type) else function)
    except TypeError as error:
        raise SourceError(f"{module.__file__}: '{name}' cannot be a tool: {error}") from error
    inferred: ToolEntry = made.tool_entry
    return replace(inferred, name=name)


_SHAPES: tuple[tuple[Callable[[Any], bool], Callable[[str, Any], Iterator[ToolEntry]]], ...] = (
    (_is_marked, _from_marked),
    (_is_codomyrmex, _from_codomyrmex),
    (_is_entry, _from_entry),
    (_is_registry, _from_registry),
    (_is_chain, _from_chain),
)
