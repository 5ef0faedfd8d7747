"""Who answers questions at the official client: a person, a model, and whoever knows the folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types


class Person:
    """Somebody at a client, who gives these answers in turn (the last for ever), and keeps what was asked.

    An answer is the content of a form, the name of an action, or a whole result; or a function of the question.
    """

    def __init__(self, *answers: Any) -> None:
        self._answers = answers or ({},)
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> Any:
        answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(params)
        if callable(answer):
            answer = await answer(params)
        if isinstance(answer, str):
            return types.ElicitResult.model_validate({"action": answer})
        return types.ElicitResult(action="accept", content=answer) if isinstance(answer, Mapping) else answer


class Model:
    """A client's model, which says this, and keeps what it was asked."""

    def __init__(self, text: str = "Paris", **fields: Any) -> None:
        self._said = {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m-1", **fields}
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> Any:
        self.asked.append(params)
        kind = types.CreateMessageResultWithTools if params.tools else types.CreateMessageResult
        return kind.model_validate(self._said)


async def folders(context: Any) -> types.ListRootsResult:
    """A client's roots."""
    return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]})
