"""The answering side of the official client: a simulated user, a simulated model, and a list of roots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types


class SimulatedUser:
    """A user who gives these answers in turn, and then the last one again. `questions` has all questions so far.

    An answer is the content of a form, the name of an action, a whole result, or a function of the question.
    """

    def __init__(self, *answers: Any) -> None:
        self._answers = answers or ({},)
        self.questions: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> Any:
        answer = self._answers[min(len(self.questions), len(self._answers) - 1)]
        self.questions.append(params)
        if callable(answer):
            answer = await answer(params)
        if isinstance(answer, str):
            return types.ElicitResult.model_validate({"action": answer})
        return types.ElicitResult(action="accept", content=answer) if isinstance(answer, Mapping) else answer


class Model:
    """A model with a constant text. `questions` are all requests."""

    def __init__(self, text: str = "Paris", **fields: Any) -> None:
        self._message = {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m-1", **fields}
        self.questions: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> Any:
        self.questions.append(params)
        result_type = types.CreateMessageResultWithTools if params.tools else types.CreateMessageResult
        return result_type.model_validate(self._message)


async def folders(context: Any) -> types.ListRootsResult:
    """Return the roots of a client."""
    return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]})
