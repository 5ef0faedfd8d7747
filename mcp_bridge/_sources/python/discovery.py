"""Finds the tools, resources and prompts of a module by their attributes, so a file need not import this package.

These values of a module become tools: entries, the entries of registries, chains, functions with the attribute
`tool_entry` (the decorator `@tool` sets it) or `_mcp_tool_meta` (codomyrmex), and single tools of other frameworks.
Resources and prompts are entries, functions with the attribute `resource_entry` or `prompt_entry`, and the entries of
registries. `PythonSource` uses this module after it has imported a file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeVar

from mcp_bridge._contracts.errors import SourceError, ToolError
from mcp_bridge._contracts.handlers import CheckedHandler, find_handler_problems
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._contracts.source import Offer
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._integrations.frameworks.discovery import DiscoveredTools, is_foreign, is_server
from mcp_bridge._json_schema.schema_checks import find_schema_problems

T = TypeVar("T")
_SERVER_NAMES = ("mcp", "server", "app")
"""The usual names of the variable for a server, which the commands of FastMCP and the MCP SDK look for."""


def find_offer(module: ModuleType, names: Iterable[str] = ()) -> Offer:
    """Find the offer of a module, in the order of its definitions.

    `names` are undecorated functions that become tools, too. Raises SourceError for a name that does not exist or
    cannot be a tool.
    """
    tools: list[ToolEntry] = []
    chains: list[ToolEntry] = []
    candidates: list[Any] = []
    for name, value in vars(module).items():
        if not name.startswith("__") and not isinstance(value, type | ModuleType):
            tools += _find_tools(name, value)
            candidates += _iter_candidates(value)
            if _is_chain(value):
                chains.append(_convert_chain(name, value))
    # The file may have published a chain itself, under another name, with `as_tool`.
    unpublished_chains = [chain for chain in chains if not any(_runs_same_chain(chain, tool) for tool in tools)]
    tools += unpublished_chains
    tools += [_infer_tool(module, name) for name in names]
    return Offer(
        tools=tools,
        resources=[entry for entry in candidates if isinstance(entry, ResourceEntry)],
        templates=[entry for entry in candidates if isinstance(entry, ResourceTemplate)],
        prompts=[entry for entry in candidates if isinstance(entry, PromptEntry)],
        server=next((entry for entry in candidates if isinstance(entry, ServerInfo)), None),
    )


def discover_foreign_tools(module: ModuleType, names: Collection[str], discovered: DiscoveredTools) -> list[str]:
    """Add the tools of other frameworks in a module to `discovered`. Return the other names, for `find_offer`.

    Single tools are always added. A set of tools is only added if it is in `names`, because opening it may start a
    process or a connection. A server (FastMCP, MCPServer) need not be in `names`.
    """
    prefix = f"{module.__name__}:"
    remaining_names = []
    for name in names:
        value = getattr(module, name, None)
        may_be_foreign = type(value) in (list, tuple, dict) or is_foreign(value)
        if not (may_be_foreign and discovered.add(prefix + name, value)):
            remaining_names.append(name)
    if not any(is_server(getattr(module, name, None)) for name in names):
        _add_server(module, discovered)
    for name, value in vars(module).items():
        # A class is no tool. isinstance would read `__class__`, which third-party code may define.
        is_class = issubclass(type(value), type)
        if not name.startswith("_") and is_foreign(value) and not is_class:
            discovered.add_tool(prefix + name, value)
    return remaining_names


def _add_server(module: ModuleType, discovered: DiscoveredTools) -> None:
    """Add the server of a module: the one with a usual name (`_SERVER_NAMES`), or the only one.

    If there are several with other names, none is added: the module may mount some of them in another.
    """
    servers = {name: value for name, value in vars(module).items() if is_server(value) and not name.startswith("_")}
    if not servers:
        return
    usual_names = [name for name in _SERVER_NAMES if name in servers]
    # Several variables may have the same server.
    distinct_servers = {id(value) for value in servers.values()}
    if usual_names or len(distinct_servers) == 1:
        name = usual_names[0] if usual_names else next(iter(servers))
        discovered.add(f"{module.__name__}:{name}", servers[name])
    else:
        server_names = ", ".join(f"'{server_name}'" for server_name in servers)
        discovered.problems.append(
            f"{module.__file__}: there are several servers, {server_names}. Name one of them `mcp`, or list it under "
            "`tools` in the settings"
        )


def merge_offers(offers: Sequence[Offer], problems: Sequence[str] = ()) -> Offer:
    """Merge offers into one with each entry once, and the first ServerInfo."""
    servers = list(dict.fromkeys(offer.server for offer in offers if offer.server is not None))
    if len(servers) > 1:
        problems = [*problems, "several files declare a ServerInfo. Keep one of them"]
    return Offer(
        tools=_remove_duplicates((offer.tools for offer in offers), "name"),
        resources=_remove_duplicates((offer.resources for offer in offers), "uri"),
        templates=_remove_duplicates((offer.templates for offer in offers), "uri_template"),
        prompts=_remove_duplicates((offer.prompts for offer in offers), "name"),
        problems=problems,
        server=servers[0] if servers else None,
    )


def select_runnable(offer: Offer) -> tuple[Sequence[ToolEntry], list[str]]:
    """Return the usable tools of an offer, and a line for each problem of the others."""
    runnable, problems = [], []
    for entry in offer.tools:
        handler_problems = find_handler_problems(entry.handler)
        entry_problems = [f"tool '{entry.name}' is not published: {problem}" for problem in handler_problems]
        entry_problems += find_schema_problems(entry)
        problems += entry_problems
        if not entry_problems:
            runnable.append(entry)
    return runnable, problems


def _remove_duplicates(lists: Iterable[Sequence[T]], key: str) -> list[T]:
    """Return the entries without those that have the same name and handler as another one.

    A file may import an entry of another file. Different entries with the same name stay, because the registry reports
    them. `key` is the attribute with the name.
    """
    get_name, get_handler = attrgetter(key), attrgetter("handler")
    entries_by_name: dict[str, list[T]] = {}
    for entry in chain.from_iterable(lists):
        namesakes = entries_by_name.setdefault(get_name(entry), [])
        if not any(get_handler(namesake) == get_handler(entry) for namesake in namesakes):
            namesakes.append(entry)
    return list(chain.from_iterable(entries_by_name.values()))


def _iter_candidates(value: Any) -> Iterator[Any]:
    """Yield what may be a resource or a prompt: the value, its marks, and the contents of a registry."""
    yield value
    if callable(value):
        for name in ("resource_entry", "prompt_entry"):
            if _has(value, name):
                yield getattr(value, name)
    if _is_registry(value):
        for name in ("resources", "templates", "prompts"):
            if _has(value, name):
                catalog = getattr(value, name)
                if isinstance(catalog, Iterable):
                    yield from catalog


def _find_tools(name: str, value: Any) -> Iterator[ToolEntry]:
    if callable(value) and _has(value, "tool_entry") and _is_entry(value.tool_entry):
        yield _convert_entry(value.tool_entry)
    elif callable(value) and _has(value, "_mcp_tool_meta") and isinstance(value._mcp_tool_meta, Mapping):
        yield _convert_codomyrmex(name, value)
    elif _is_entry(value):
        yield _convert_entry(value)
    elif _is_registry(value):
        yield from map(_convert_entry, value.list())


def _has(value: Any, *names: str) -> bool:
    """Return whether an object has these attributes. A mock, which has any attribute, does not count."""
    try:
        return all(hasattr(value, name) for name in names) and not hasattr(value, "no_such_attribute_anywhere")
    except Exception:
        # A third-party __getattr__ may fail.
        return False


def _is_entry(value: Any) -> bool:
    return _has(value, "name", "description", "handler", "input_schema") and callable(value.handler)


def _is_registry(value: Any) -> bool:
    return _has(value, "list", "list_names", "register", "get") and callable(value.list)


def _is_chain(value: Any) -> bool:
    return _has(value, "steps", "execute", "add_step") and callable(value.execute)


def _convert_entry(value: Any) -> ToolEntry:
    if isinstance(value, ToolEntry):
        return value
    return ToolEntry(
        str(value.name),
        str(value.description or ""),
        value.handler,
        value.input_schema or {},
        getattr(value, "output_schema", None) or {},
        list(getattr(value, "tags", None) or ()),
    )


def _convert_chain(name: str, value: Any) -> ToolEntry:
    if hasattr(value, "as_tool"):
        entry: ToolEntry = value.as_tool(name)
        return entry
    steps = ", ".join(str(getattr(step, "tool_name", step)) for step in value.steps)
    return ToolEntry(name, f"Runs in order: {steps}.", ForeignChain(value))


@dataclass(frozen=True)
class ForeignChain(CheckedHandler):
    """The handler of a chain of another package. Its errors are written for the model."""

    chain: Any

    def __call__(self, data: Any) -> Any:
        """Run the chain, and return its context."""
        result = self.chain.execute(dict(data or {}))
        if not result.success:
            raise ToolError(f"Chain failed: {'; '.join(result.errors)}", code="chain_failed")
        return result.context

    def list_problems(self) -> Sequence[str]:
        """List the problems the chain's own `validate` finds, if the chain has one and it works."""
        try:
            validation = self.chain.validate()
            if validation.valid:
                return []
            return list(map(str, validation.errors)) or ["its own validation fails"]
        except Exception:
            # The validation is third-party code. A call will report its problem.
            return []


def _runs_same_chain(chain: ToolEntry, tool: ToolEntry) -> bool:
    """Return whether a tool was made with `as_tool` from the same chain: their handlers have the same list of steps."""
    chain_handler: Any = chain.handler
    tool_handler: Any = tool.handler
    if type(tool_handler) is not type(chain_handler) or not hasattr(chain_handler, "steps"):
        return False
    return tool_handler.steps is chain_handler.steps


def _convert_codomyrmex(name: str, value: Any) -> ToolEntry:
    meta = value._mcp_tool_meta
    schema = meta.get("schema") or {}
    return ToolEntry(
        str(meta.get("name") or name),
        str(meta.get("description") or value.__doc__ or ""),
        lambda data: value(**(data or {})),
        schema.get("inputSchema", schema) if isinstance(schema, dict) else {},
        {},
        [str(tag) for tag in meta.get("tags") or ()],
    )


def _infer_tool(module: ModuleType, name: str) -> ToolEntry:
    from mcp_bridge._engine.authoring import tool

    function = getattr(module, name, None)
    if not callable(function):
        raise SourceError(f"{module.__file__}: there is no function '{name}', which the settings name as a tool")
    entry = getattr(function, "tool_entry", None)
    if isinstance(entry, ToolEntry):
        return entry
    try:
        decorated: Any = tool()(partial(function) if isinstance(function, type) else function)
    except TypeError as error:
        raise SourceError(f"{module.__file__}: '{name}' cannot be a tool: {error}") from error
    entry = decorated.tool_entry
    assert isinstance(entry, ToolEntry)
    return replace(entry, name=name)
