"""`context-simple`: keeps the history in memory, and shortens it for the window of the model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mcp_bridge._integrations.amplifier.contexts.compaction import (
    Unit,
    estimate_tokens,
    group_messages,
    select_units,
    shorten_messages,
)
from mcp_bridge._integrations.amplifier.events import CONTEXT_POST_COMPACT, CONTEXT_PRE_COMPACT

logger = logging.getLogger("mcp_bridge.amplifier")

__amplifier_module_type__ = "context"

SAFETY_MARGIN = 1000
"""The free tokens of a model's window in a request (CONTEXT_CONTRACT, "get_messages_for_request")."""


class ContextConfig(BaseModel):
    """The configuration of a context.

    Attributes:
        max_tokens: The budget of a request if neither the caller nor the provider sets one.
        compaction_threshold: Above this share of the budget, a history is compacted.
        target_usage: After a compaction, the messages use this share of the budget.
    """

    model_config = ConfigDict(extra="ignore")

    max_tokens: int = Field(default=100_000, gt=0)
    compaction_threshold: float = Field(default=0.8, gt=0, le=1)
    target_usage: float = Field(default=0.5, gt=0, le=1)


class SimpleContext:
    """The history of an agent (CONTEXT_CONTRACT 2.1.0). Compaction never changes it.

    `hooks` receives the events of compaction; it may be None.
    """

    def __init__(self, config: ContextConfig | None = None, hooks: Any = None) -> None:
        self._config = config or ContextConfig()
        self._hooks = hooks
        self._messages: list[dict[str, Any]] = []
        self._sizes: list[int] = []
        self._has_warned = False
        self._left_out: frozenset[int] = frozenset()

    async def add_message(self, message: dict[str, Any]) -> None:
        """Add a message to the end. Raises ValueError for one without a role."""
        self._append(message)

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Return as many messages as fit in a request, in order.

        Args:
            token_budget: The maximum number of tokens; overrides the provider's.
            provider: The provider of the request. Its window, without its longest response and a margin, is the budget.
        """
        budget = self._find_budget(token_budget, provider)
        config, messages, sizes = self._config, self._messages, self._sizes
        trigger = budget * config.compaction_threshold
        if sum(sizes) <= trigger:
            return [dict(message) for message in messages]
        target = min(budget * config.target_usage, trigger)
        units = select_units(messages, group_messages(messages, sizes), trigger=trigger, target=target)
        return await self._compact(units, budget)

    async def get_messages(self) -> list[dict[str, Any]]:
        """Return the complete history."""
        return [dict(message) for message in self._messages]

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace the history. Raises ValueError for a message without a role, and then changes nothing."""
        for message in messages:
            check_message(message)
        self._replace(messages)

    async def clear(self) -> None:
        """Forget everything."""
        self._forget()

    def _append(self, message: Mapping[str, Any]) -> None:
        check_message(message)
        # Estimate the size first, because this may raise.
        self._sizes.append(estimate_tokens(message))
        self._messages.append(dict(message))

    def _replace(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._forget()
        for message in messages:
            self._append(message)

    def _forget(self) -> None:
        self._messages, self._sizes = [], []
        self._left_out = frozenset()

    def _find_budget(self, token_budget: int | None, provider: Any) -> int:
        if token_budget is not None:
            return token_budget
        budget = 0
        if provider is not None:
            try:
                defaults = provider.get_info().defaults or {}
                window, longest = defaults.get("context_window"), defaults.get("max_output_tokens")
                if window and longest:
                    budget = int(window - longest - SAFETY_MARGIN)
            except Exception as error:
                # The provider is third-party code. Warn once, not for each request.
                level = logging.DEBUG if self._has_warned else logging.WARNING
                self._has_warned = True
                message = "the provider does not describe its model, so the budget is %d tokens: %s"
                logger.log(level, message, self._config.max_tokens, error)
        return budget if budget > 0 else self._config.max_tokens

    async def _compact(self, units: Sequence[Unit], budget: int) -> list[dict[str, Any]]:
        """Return copies of the messages of units. Emit the events only if other messages are left out than before."""
        indexes: list[int] = []
        for unit in units:
            indexes += unit.indexes
        indexes.sort()
        left_out = frozenset(range(len(self._messages))).difference(indexes)
        is_new = left_out != self._left_out
        if is_new:
            self._left_out = left_out
            await self._emit(CONTEXT_PRE_COMPACT, len(self._messages), sum(self._sizes))
        view = shorten_messages([self._messages[index] for index in indexes], budget)
        if is_new:
            await self._emit(CONTEXT_POST_COMPACT, len(view), sum(map(estimate_tokens, view)))
        return view

    async def _emit(self, event: str, messages: int, tokens: int) -> None:
        if self._hooks is not None:
            await self._hooks.emit(event, {"message_count": messages, "token_count": tokens})


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the context. Raises ValueError for an invalid configuration (pydantic's ValidationError)."""
    context = SimpleContext(ContextConfig(**read_config(config, ContextConfig)), coordinator.hooks)
    await mount_context(coordinator, context, "context-simple")
    return context


async def mount_context(coordinator: Any, context: Any, name: str) -> None:
    """Mount a context and declare its events, on either host."""
    await coordinator.mount("context", context)
    coordinator.register_contributor("observability.events", name, lambda: [CONTEXT_PRE_COMPACT, CONTEXT_POST_COMPACT])


def read_config(config: Mapping[str, Any] | None, model: type[BaseModel]) -> dict[str, Any]:
    """Return the known keys of a configuration, and log the others.

    They are no error, because the configuration may be meant for Amplifier's own module of the same name.
    """
    options = dict(config or {})
    unknown_keys = sorted(key for key in options if key not in model.model_fields)
    if unknown_keys:
        logger.warning("unknown keys of a context's configuration are ignored: %s", ", ".join(map(str, unknown_keys)))
    return {key: value for key, value in options.items() if key in model.model_fields}


def check_message(message: Any) -> None:
    """Raise ValueError for a message without a role."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise ValueError("Message must have 'role' field")  # noqa: TRY004 - the contract's error
