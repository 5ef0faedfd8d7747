"""Questions: what a running call may ask of the client, and what comes back.

Asked as elicitation, sampling and roots requests of the handshake versions (client/elicitation, client/sampling,
client/roots), and as input requests of 2026-07-28 (basic/patterns/mrtr).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.prompt import Message


@dataclass(frozen=True, slots=True)
class Question:
    """Anything that may be asked."""


@dataclass(frozen=True, slots=True)
class Form(Question):
    """Data that a person types in.

    `schema` is a flat JSON Schema (an object whose properties are text, numbers, booleans or choices), or a type
    to make one of: a dataclass, a pydantic model, a TypedDict, or for a single value `str`, `int`, `float`, `bool`,
    `date`, an Enum or a Literal, or a list of the last two for several choices. None asks for a yes or no. Never for
    secrets: those belong behind a `Link`.
    """

    message: str
    schema: Any = None


@dataclass(frozen=True, slots=True)
class Link(Question):
    """A page that a person should open, for whatever the client must not see: signing in, paying, secrets."""

    message: str
    url: str


@dataclass(frozen=True, slots=True)
class Sampling(Question):
    """A message that the client's model should write, of at most `max_tokens`.

    `messages` is the conversation; plain text is one message of the user. `tools` and `tool_choice`, as MCP has them,
    need a client that says it can use them in sampling; `include_context` likewise.
    """

    messages: str | Message | Sequence[str | Message | Mapping[str, Any]]
    max_tokens: int = 1024
    _: KW_ONLY
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: Sequence[str] | None = None
    model_preferences: Mapping[str, Any] | None = None
    include_context: str | None = None
    metadata: Mapping[str, Any] | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    tool_choice: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Roots(Question):
    """The folders that the client lets servers work in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person said to a `Form` or a `Link`.

    `content` is what was typed in, valid against the schema that was asked for, and empty unless accepted. `data` is
    the same as an instance of the type that was asked for; without a type it is `content`. Where a call has been taken
    up from another instance, `again` says that the answer was given to it there already, and `seconds` how long one
    that is new has taken since it was asked there.
    """

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict)
    data: Any = None
    seconds: float | None = field(default=None, compare=False)
    again: bool = field(default=False, compare=False)

    @property
    def accepted(self) -> bool:
        """Whether the person agreed."""
        return self.action == "accept"

    def __bool__(self) -> bool:
        return self.accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What the client's model wrote. `content` has every block; tool uses among them are mappings, as MCP has them."""

    role: str
    content: Sequence[Content | Mapping[str, Any]]
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """All text of it, a line each."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One folder (or other place) that the client lets servers work in; `uri` begins with `file://` so far."""

    uri: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class NeedsInput:
    """A handler's other answer: it has ended and needs these answers to be called again.

    The next call has them in `ctx.answers`, under the same names, and `state` (any JSON value, sealed on its way
    through the client) in `ctx.state`. Unlike `ctx.ask`, which waits where it stands, this works across instances.
    Raises ValueError without a question.
    """

    questions: Mapping[str, Question]
    state: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.questions, Mapping) or not self.questions:
            raise ValueError("a NeedsInput has at least one question, by name")
