"""Defines the questions of a running call to the client, and their answers.

The server sends them as elicitation, sampling and roots requests in the handshake versions (client/elicitation,
client/sampling, client/roots), and as input requests in 2026-07-28 (basic/patterns/mrtr).
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from mcp_bridge._contracts.content import Content, Message, Text

__all__ = ["Answer", "Form", "Link", "PendingAnswer", "Question", "Root", "Roots", "Sampled", "Sampling"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """The base of all questions. A client needs the `capability` to answer it."""

    capability: ClassVar[str] = "elicitation"


@dataclass(frozen=True, slots=True)
class Form(Question):
    """A form for the user to fill in.

    `schema` is one of these:

    - a flat JSON Schema: an object with text, numbers, booleans or choices as properties,
    - a dataclass, a pydantic model or a TypedDict,
    - for a single value, `str`, `int`, `float`, `bool`, `date`, an Enum or a Literal,
    - for several choices, a list of an Enum or a Literal,
    - None to ask the user to confirm. The answer is accepted or not, and has no content.

    Never ask for secrets in a form. Use a `Link`.

    >>> Form("How many seats?", int).schema
    <class 'int'>
    """

    message: str
    schema: Any = None


@dataclass(frozen=True, slots=True)
class ApprovalForm(Form):
    """A form that asks whether a call may run.

    Only the approval gate uses it. The gate itself also asks users on the page and in a terminal, so the server sends
    this question to the client alone.
    """


@dataclass(frozen=True, slots=True)
class Link(Question):
    """A web page for the user to open, for data that the client must not see: sign-in, payment, secrets.

    >>> Link("Sign in to the shop.", "https://shop.example/login").capability
    'elicitation'
    """

    message: str
    url: str


@dataclass(frozen=True, slots=True)
class Sampling(Question):
    """A request for a message of the client's model, of at most `max_tokens`.

    `messages` is the conversation. A text in it is a message of the user. `tools` and `tool_choice`, in the form of
    MCP, and `include_context` need a client that declares support for them in sampling.

    >>> Sampling("Summarise this in one line: ...", 100, temperature=0.2).max_tokens
    100
    """

    capability: ClassVar[str] = "sampling"

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
    """A request for the folders of the client for servers to work in."""

    capability: ClassVar[str] = "roots"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """The user's answer to a `Form` or a `Link`. `Answer[int]` is the answer to `ctx.ask("How many?", int)`.

    >>> answer = Answer(action="accept", content={"value": 2}, data=2)
    >>> answer.data if answer else "declined"
    2

    Attributes:
        content: The data of the form, valid against its schema; empty unless accepted.
        data: The same data as an instance of the type in the schema, or `content` for a JSON Schema. It is None unless
            accepted, so check the answer first.
        seconds: The seconds between question and answer, if another instance of the server has asked the question.
        again: Whether the client has sent this answer before, to another instance.
    """

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict)
    data: T = None  # type: ignore[assignment] # only an accepted answer has data
    seconds: float | None = field(default=None, compare=False)
    again: bool = field(default=False, compare=False)

    @property
    def accepted(self) -> bool:
        """Whether the user accepted."""
        return self.action == "accept"

    def __bool__(self) -> bool:
        return self.accepted


class PendingAnswer(Coroutine[Any, Any, T]):
    """The coroutine of `CallContext.ask`. Its truth value raises TypeError.

    Without this, `if ctx.ask("Delete it?"):` would be true if the author forgets `await`. The class is a Coroutine, so
    that functions for coroutines accept it, such as `anyio.from_thread.run`.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        # Python's warning about a coroutine that is never awaited names this.
        coroutine.__qualname__ = "CallContext.ask"  # type: ignore[attr-defined]

    def __bool__(self) -> bool:
        # Closing the coroutine avoids Python's warning that it was never awaited, because the error says so.
        self._coroutine.close()
        raise TypeError("ctx.ask(...) was not awaited, so there is no answer yet. Write `await ctx.ask(...)`")

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Resume the coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception inside the coroutine."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End the coroutine."""
        self._coroutine.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A message of the client's model. The blocks in `content` are content, or mappings in MCP's form for tool uses.

    >>> from mcp_bridge.content import Text
    >>> Sampled(role="assistant", content=[Text("Blue."), Text("Green.")], model="m").text
    'Blue.\\nGreen.'
    """

    role: str
    content: Sequence[Content | Mapping[str, Any]]
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """The text of all text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder of the client for servers to work in. In current MCP versions, `uri` begins with `file://`."""

    uri: str
    name: str | None = None
