"""PendingQuestion: a question of a suspended call or a task, from asking until its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio

from mcp_bridge._contracts.errors import InvalidAnswer, QuestionExpired
from mcp_bridge._contracts.question import Answer
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._server.questions.requests import TRIES, AnswerMismatch, QuestionRequest

AnswerRecord = tuple[str, str, Any]
"""The key and the digest of a question, and the client's answer."""


class PendingQuestion:
    """A question waiting for its answer. Each answer is also added to `records`, for other instances."""

    def __init__(self, key: str, request: QuestionRequest, records: list[AnswerRecord]) -> None:
        self.key = key
        self.request = request
        self._records = records
        self._problems: list[str] = []
        self._tries = 0
        self._settled = anyio.Event()
        self._answer: Any = None
        self._error: Exception | None = None

    @property
    def is_settled(self) -> bool:
        return self._settled.is_set()

    def to_mcp(self) -> dict[str, Any]:
        return self.request.to_mcp(self._problems)

    def answer(self, raw: Any, *, seconds: float | None = None, again: bool = False) -> bool:
        """Accept an answer. Return False if it is invalid, and the question has to be asked again.

        `seconds` and `again` become the members of `Answer`.
        """
        self._records.append((self.key, self.request.digest, _to_json_value(raw)))
        try:
            answer = self.request.read(raw)
            if isinstance(answer, Answer):
                answer = replace(answer, seconds=seconds, again=again)
            self._answer = answer
        except AnswerMismatch as error:
            self._problems = error.problems
            self._tries += 1
            if self._tries < TRIES:
                return False
            self._error = InvalidAnswer(details=error.problems)
        except Exception as error:
            # A validator of the tool has failed. The code that asks gets its error.
            self._error = error
        self._settled.set()
        return True

    def answer_late(self, raw: Any) -> None:
        """Accept an answer to a withdrawn question, which is not asked again if the answer is invalid."""
        if not self.answer(raw):
            self._error = InvalidAnswer(details=self._problems)
            self._settled.set()

    def expire(self) -> None:
        """Let `wait` raise QuestionExpired."""
        self._error = QuestionExpired("The call is over, so the user cannot be asked.")
        self._settled.set()

    async def wait(self) -> Any:
        """Wait for the answer. Raises InvalidAnswer, QuestionExpired."""
        # The time limit of the caller could cancel even a wait for an event that is set, although the answer is there.
        if not self.is_settled:
            await self._settled.wait()
        if self._error is not None:
            raise self._error
        return self._answer


def _to_json_value(raw: Any) -> Any:
    """Return an answer as plain data, or None if it is nested too deeply, which no question accepts."""
    try:
        return to_plain(raw)
    except ValueError:
        return None
