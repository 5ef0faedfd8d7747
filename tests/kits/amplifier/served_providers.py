"""The contract suite of providers for provider-sampling, whose model is that of the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio

from mcp_bridge._contracts.content import Text
from mcp_bridge._contracts.errors import MissingCapability
from mcp_bridge._contracts.question import Sampled
from mcp_bridge._integrations.amplifier.behavior import ProviderBehaviorTests
from mcp_bridge._integrations.amplifier.behavior.module_tests import skip_rule
from mcp_bridge._integrations.amplifier.running_call import AGENT_CALL

MEASURE = {"type": "tool_use", "id": "call_9", "name": "measure", "input": {"unit": "cm"}}


class SamplingProviderTests(ProviderBehaviorTests):
    """The suite with a simulated client, which samples as each situation of the suite requires."""

    @asynccontextmanager
    async def open_situation(self, name: str) -> AsyncIterator[Any]:
        if name == "thinking":
            skip_rule("sampling has no blocks of reasoning")

        async def sample(*args: Any, **kwargs: Any) -> Sampled:
            if name == "error":
                raise MissingCapability({"sampling": ()})
            if name == "silence":
                await anyio.sleep_forever()
            content = [Text("It is "), Text("large."), *([MEASURE] if name == "tool_call" else [])]
            return Sampled(role="assistant", content=content, model="sample-model", stop_reason="endTurn")

        token = AGENT_CALL.set(SimpleNamespace(sample=sample))  # type: ignore[arg-type]
        try:
            async with self.open_module() as provider:
                yield provider
        finally:
            AGENT_CALL.reset(token)
