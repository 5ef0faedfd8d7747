"""The providers of a session as its orchestrator sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any


class CountedProvider:
    """A provider of the session. It counts the tokens of responses, which not every orchestrator reports."""

    def __init__(self, provider: Any, add_usage: Callable[[Any], None]) -> None:
        self._provider = provider
        self._add_usage = add_usage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    @property
    def complete(self) -> Callable[..., Awaitable[Any]]:
        """The provider's own `complete`, with its signature."""
        complete = self._provider.complete

        @wraps(complete)
        async def complete_and_count(*args: Any, **kwargs: Any) -> Any:
            response = await complete(*args, **kwargs)
            self._add_usage(getattr(response, "usage", None))
            return response

        return complete_and_count
