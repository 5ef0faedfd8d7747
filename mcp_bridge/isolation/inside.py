"""The context of a call inside a worker, which sends its requests to the bridge, where the client is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import InvalidAnswer
from mcp_bridge.contracts.levels import Level, check_level
from mcp_bridge.contracts.question import Form, Question
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.isolation.link import Link
from mcp_bridge.isolation.words import Json, Unfit, from_question, to_answer, to_result
from mcp_bridge.wire.values import plain

TRIES = 3
"""How often a question is asked again because its type rejects the answer."""


class InnerContext(CallContext):
    """A running call, as its tool sees it inside a worker."""

    __slots__ = ("_call", "_end", "_link")

    def __init__(self, link: Link, call: int, given: Json) -> None:
        super().__init__(
            protocol_version=given["protocol_version"],
            principal=given["principal"],
            session=given["session"],
            request_id=given["request_id"],
            meta=given["meta"],
            capabilities=given["capabilities"],
        )
        self._link = link
        self._call = call
        self.answers = {key: to_answer(answer) for key, answer in given["answers"].items()}
        self.state = given["state"]
        self._end: float | None = None
        self._ends_in(given["left"])

    @property
    def deadline(self) -> float | None:
        """The time on this event loop's clock at which the call has to end."""
        return self._end

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client."""
        self._tell("progress", progress=plain(progress), total=plain(total), message=plain(message))

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send the client a log message. Raises ValueError for an unknown level."""
        check_level(level)
        self._tell("message", level=level, data=plain(data), logger=plain(logger))

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Ask several questions at once. Raises as `ask` does."""
        answers: dict[str, Any] = {}
        problems: dict[str, list[str]] = {}
        for _ in range(TRIES):
            left = {key: one for key, one in questions.items() if key not in answers}
            sent = {key: from_question(_again(one, problems.get(key, []))) for key, one in left.items()}
            reply = await self._ask("put", questions=sent)
            problems = {}
            for key, given in reply["answer"].items():
                try:
                    answers[key] = to_answer(given, left[key])
                except Unfit as error:  # it fits the schema, but not the type
                    problems[key] = error.problems
            if not problems:
                return {key: answers[key] for key in questions}
        lines = [line for key in problems for line in problems[key]]
        raise InvalidAnswer(details=lines)

    async def close_stream(self) -> None:
        """Close the stream of this call; the client resumes it later."""
        self._tell("close stream")

    def tools(self) -> Sequence[ToolEntry]:
        """Return the published tools by name. Call them through `invoke`."""
        reply = self._link.ask({"id": self._call, "what": "tools"}).result()
        return [ToolEntry(handler=_elsewhere, **entry) for entry in reply["answer"]]

    async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
        """Call another published tool. Raises ToolNotFound if no tool has this name."""
        reply = await self._ask("invoke", name=name, arguments=plain(arguments))
        return to_result(reply["answer"])

    def resource_updated(self, uri: str) -> None:
        """Notify subscribers that a resource has changed; from any thread."""
        self._link.tell({"say": "updated", "uri": uri})

    def _tell(self, event: str, **data: Any) -> None:
        self._link.tell({"say": event, "id": self._call, **data})

    async def _ask(self, what: str, **data: Any) -> Any:
        reply = await asyncio.wrap_future(self._link.ask({"id": self._call, "what": what, **data}))
        self._ends_in(reply["left"])
        return reply

    def _ends_in(self, left: float | None) -> None:
        self._end = None if left is None else anyio.current_time() + left


def _again(question: Question, problems: list[str]) -> Question:
    if not problems or not isinstance(question, Form):
        return question
    return Form(f"{question.message}\n\nThe last answer was not valid: {'; '.join(problems)}", question.schema)


def _elsewhere(_: Any) -> Any:
    raise RuntimeError("this tool runs in another process. Call it through ctx.invoke")
