"""The context of a call inside a worker: what it asks goes to the bridge, where the client is."""

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
"""How often one question may be answered with what its type refuses."""


class InnerContext(CallContext):
    """A running call, as its tool sees it from inside a worker."""

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
        """When the call has to end, in seconds of this event loop's clock."""
        return self._end

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the call is."""
        self._tell("progress", progress=plain(progress), total=plain(total), message=plain(message))

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send the client a log message. Raises ValueError for what is no level."""
        check_level(level)
        self._tell("message", level=level, data=plain(data), logger=plain(logger))

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Put several questions at once. Raises as `ask`."""
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
                except Unfit as error:  # valid for its schema, not for its type
                    problems[key] = error.problems
            if not problems:
                return {key: answers[key] for key in questions}
        lines = [line for key in problems for line in problems[key]]
        raise InvalidAnswer(details=lines)

    async def close_stream(self) -> None:
        """Have the client fetch the rest of this call's stream later."""
        self._tell("close stream")

    def tools(self) -> Sequence[ToolEntry]:
        """The published tools, by name; to be called through `invoke`."""
        reply = self._link.ask({"id": self._call, "what": "tools"}).result()
        return [ToolEntry(handler=_elsewhere, **entry) for entry in reply["answer"]]

    async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
        """Call another published tool. Raises ToolNotFound when there is none of that name."""
        reply = await self._ask("invoke", name=name, arguments=plain(arguments))
        return to_result(reply["answer"])

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource that it has changed; from any thread."""
        self._link.tell({"say": "updated", "uri": uri})

    def _tell(self, said: str, **data: Any) -> None:
        self._link.tell({"say": said, "id": self._call, **data})

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
    raise RuntimeError("this tool is elsewhere: call it through ctx.invoke")
