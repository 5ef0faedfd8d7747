"""Tools as data: definition, entry, call, result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, NamedTuple

from mcp_bridge.contracts.content import Content


@dataclass
class ToolDefinition:
    """A tool without its handler, as clients are told about it (tool_use API, plus MCP's presentation fields)."""

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


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes) else []


def _dict(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


@dataclass
class ToolEntry:
    """A registered tool: the first six fields and both methods are the tool_use API's.

    `handler` gets one positional argument, the input data, and, where it has a parameter annotated
    `CallContext`, the running call's context by that parameter's name. It may be async.
    `owner` names the source that published the entry; the registry sets it.
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

    def to_tool_definition(self, module: str = "tool_use") -> ToolDefinition:
        """This entry as a definition. Schemas are shared with the entry, tags are copied.

        Presentation that is not of its declared type (None, say) is left out, so that one entry never spoils a list.
        """
        return ToolDefinition(
            name=self.name,
            description=self.description,
            module=module,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            tags=_list(self.tags),
            title=self.title,
            annotations=_dict(self.annotations),
            icons=_list(self.icons),
            meta=_dict(self.meta),
        )

    def to_dict(self) -> dict[str, Any]:
        """The six fields of the tool_use API as a plain dictionary, without the handler."""
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
    """One call as a client made it; `arguments` is what the handler gets, validated by the pipeline.

    Reading a resource, getting a prompt and completing an argument go the same governed way, told apart by `kind`;
    `name` is then the URI or the prompt's name, and `arguments` the template's variables or the prompt's arguments.
    """

    id: str
    name: str
    arguments: Any = None
    kind: Kind = "tool"


class EncodedOutput(NamedTuple):
    """An output and its JSON text, kept so that it is serialised once. Holds for this very object only."""

    output: Any
    text: str
    size: int
    """In bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call came to, in both Amplifier spellings at once.

    `success`/`output`/`error` and `tool_call_id`/`output`/`is_error` are one set of facts: give either
    `success` or `is_error`, the other follows. `error` is text or a mapping with a `message`. `content`,
    when given, is what clients see instead of `output` rendered as text. `code` is stable on failures.
    `duration_ms` is in milliseconds. Raises ValueError when `success` and `is_error` contradict.
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
            object.__setattr__(self, "success", not self.is_error)
        if self.is_error is None:
            object.__setattr__(self, "is_error", not self.success)
        elif self.is_error == self.success:
            raise ValueError(f"success={self.success} and is_error={self.is_error} contradict each other")

    @property
    def error_text(self) -> str:
        """The error as text: itself, its `message`, or empty."""
        if isinstance(self.error, Mapping):
            return str(self.error.get("message", ""))
        return self.error or ""
