"""Defines tools, calls and results as data. Nearly every module uses them.

A `ToolEntry` is a tool with its handler, a `ToolDefinition` its description for clients, a `ToolCall` one call, and a
`ToolResult` its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, cast

# At run time, only calls need content, and only declarations need tasks.
if TYPE_CHECKING:
    from mcp_bridge._contracts.content import Content
    from mcp_bridge._contracts.tasks import ToolTasks

X_MCP_HEADER = "x-mcp-header"
"""The keyword in the schema of an argument with the name of its HTTP header (see `Header`)."""

Tags = list[str] | tuple[str, ...] | Set[str]


def list_tags(tags: Tags | None) -> list[str]:
    """Return tags as a list. The tags of a set are sorted, so that the order is the same at each start."""
    if isinstance(tags, Set):
        return sorted(tags, key=str)
    return list(tags or ())


@dataclass
class ToolDefinition:
    """A tool without its handler, with the fields of the tool_use API and MCP's fields for presentation.

    >>> ToolDefinition("forecast", "The weather of tomorrow", "weather", {"type": "object"}, tags=["web"]).title is None
    True
    """

    name: str
    description: str
    module: str
    input_schema: dict[str, Any] = field(default_factory=dict)
    output_schema: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    _: KW_ONLY
    title: str | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    icons: list[dict[str, Any]] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)


def _to_list(value: Any) -> list[Any]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | Set):
        return []
    return list(value)


def _to_dict(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


class ToolHints(TypedDict, total=False):
    """The effects of a tool (MCP server/tools, "ToolAnnotations").

    They help clients decide when to ask users. The bridge does not enforce them, but some policies apply only to tools
    with certain hints.
    """

    read_only: bool | None
    """Whether the tool changes nothing."""
    destructive: bool | None
    """Whether the tool may delete or overwrite things, rather than only add them."""
    idempotent: bool | None
    """Whether a second call with the same arguments changes nothing more."""
    open_world: bool | None
    """Whether the tool interacts with an open set of things, such as the web."""


_ANNOTATIONS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


def add_hints(annotations: Mapping[str, Any] | None, hints: ToolHints) -> dict[str, Any]:
    """Return MCP's annotations with these hints, except None. Raises TypeError if one is in both arguments."""
    result = dict(annotations or {})
    for name, value in cast("Mapping[str, Any]", hints).items():
        if value is None:
            continue
        if _ANNOTATIONS[name] in result:
            raise TypeError(f"tool(): give either {name}= or '{_ANNOTATIONS[name]}' in annotations=")
        result[_ANNOTATIONS[name]] = value
    return result


@dataclass
class ToolEntry:
    """A registered tool. The first six fields and both methods are those of the tool_use API.

    >>> ToolEntry("greet", "Greet a user", lambda data: f"Hello, {data['name']}!").to_dict()["name"]
    'greet'

    Attributes:
        handler: Takes the input data as its one positional argument. If it has a parameter annotated `CallContext`, it
            also receives the context of the call, by that parameter's name. It may be async.
        owner: The name of the source of the entry. The registry sets it.
        original_name: The name in that source, if the entry is published under another one.
        affinity: The name of an argument and of a field of the output. Both contain the id of state in the process of
            the handler, such as a conversation. Isolated calls with the same id run in the same process.
        is_listed: Whether the tool is in lists. It can be called by its name in any case.
        tasks: How calls become tasks, unless the settings have options for the tool.
    """

    name: str
    description: str
    handler: Callable[..., Any]
    input_schema: dict[str, Any] = field(default_factory=dict)
    output_schema: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    _: KW_ONLY
    title: str | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    icons: list[dict[str, Any]] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    owner: str = ""
    original_name: str = ""
    affinity: str = ""
    is_listed: bool = True
    tasks: ToolTasks | None = None

    @property
    def name_in_source(self) -> str:
        """The name by which the source, its modules and its agents know the tool."""
        return self.original_name or self.name

    def to_tool_definition(self, module: str = "tool_use") -> ToolDefinition:
        """Return this entry as a definition. Both share the schemas.

        Tags, annotations, icons and meta of a wrong type, such as None, become empty. So no entry can break a list.
        """
        return ToolDefinition(
            name=self.name,
            description=self.description,
            module=module,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            tags=_to_list(self.tags),
            title=self.title,
            annotations=_to_dict(self.annotations),
            icons=_to_list(self.icons),
            meta=_to_dict(self.meta),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the tool_use API, except the handler, as a dictionary."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "tags": list(self.tags),
        }


Kind = Literal["tool", "resource", "prompt", "completion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call. The pipeline validates `arguments` and passes them to the handler.

    Reading a resource, getting a prompt and completing an argument are calls too, of another `kind`. Then `name` is the
    URI or the prompt's name, and `arguments` are the template's variables or the prompt's arguments.

    >>> ToolCall(id="1", name="forecast", arguments={"city": "Ulm"}).kind
    'tool'

    Attributes:
        root: The path of `arguments` in the message of the client, for error messages: `$.input` if they are wrapped.
        known_as: The name for hooks, if they know the tool by another name than the published one. Agents of Amplifier
            know the tools of their source by the names of the modules.
    """

    id: str
    name: str
    arguments: Any = None
    kind: Kind = "tool"
    root: str = "$"
    known_as: str = ""


class EncodedOutput(NamedTuple):
    """An output and its JSON text, so that the output is serialised only once.

    It is valid only for the same `output` object, so a policy may replace the output of a result without updating it.
    """

    output: Any
    text: str
    size: int
    """The size of the JSON text in bytes."""


@dataclass(slots=True, kw_only=True)
class ToolResult:
    """The result of a call. Policies replace a result instead of changing it.

    Amplifier has two forms of results, one with `success` and one with `is_error`. This class has both fields: pass one
    of them, and the other follows from it. Raises ValueError if they contradict each other.

    Attributes:
        error: The text of the error, or a mapping with a `message`.
        content: The content for clients. Without it, clients get `output` as text.
        code: The stable code of a failure.
        duration_ms: The duration in milliseconds. The pipeline sets it in place, because a copy would cost more than a
            layer.
        meta: The `_meta` of the result for clients.
        encoded: The output with its JSON text. The server sets it.

    >>> ToolResult(success=False, error={"message": "no such city"}).error_text
    'no such city'
    """

    success: bool | None = None
    output: Any = None
    error: str | Mapping[str, Any] | None = None
    tool_call_id: str = ""
    is_error: bool | None = None
    content: Sequence[Content] | None = None
    code: str | None = None
    duration_ms: float | None = None
    meta: Mapping[str, Any] | None = None
    encoded: EncodedOutput | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.success is None:
            self.success = not self.is_error
        if self.is_error is None:
            self.is_error = not self.success
        elif self.is_error == self.success:
            raise ValueError(f"success={self.success} and is_error={self.is_error} contradict each other")

    @property
    def error_text(self) -> str:
        """The text of the error, or its `message`; empty if there is none."""
        if isinstance(self.error, Mapping):
            return str(self.error.get("message", ""))
        return self.error or ""
