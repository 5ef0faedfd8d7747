"""The providers of a session as its orchestrator sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any


class CountedProvider:
    """A provider of the session. It reports each response, which not every orchestrator does."""

    def __init__(self, provider: Any, add_response: Callable[[Any], None]) -> None:
        self._provider = provider
        self._add_response = add_response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    @property
    def complete(self) -> Callable[..., Awaitable[Any]]:
        """The provider's own `complete`, with its signature."""
        complete = self._provider.complete

        @wraps(complete)
        async def complete_and_report(*args: Any, **kwargs: Any) -> Any:
            response = await complete(*args, **kwargs)
            self._add_response(response)
            return response

        return complete_and_report
