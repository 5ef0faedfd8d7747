"""The contract suite for providers over an SDK, with a local server that does what each situation says."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Mapping
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
from tests.kits.amplifier.model_server import Reply, serve_model

MEASURE = {"type": "tool_use", "id": "call_9", "name": "measure", "input": {"unit": "cm"}}


class ServedProviderTests(ProviderBehaviorTests):
    """The suite for a provider whose API is at `base_url`.

    Attributes:
        replies: The response of the API in each situation; `stream` is that to a streaming request for a text.
        path: What follows the address of the server in `base_url`.
    """

    replies: Mapping[str, Reply] = {}
    path = ""
    config = {"api_key": "sk-sample", "base_url": "http://127.0.0.1:9", "max_retries": 0}

    @asynccontextmanager
    async def open_situation(self, name: str) -> AsyncIterator[Any]:
        if name == "silence":
            with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and never responds
                address = f"http://127.0.0.1:{silent.getsockname()[1]}{self.path}"
                async with self.open_module(base_url=address) as provider:
                    yield provider
            return
        if name not in self.replies:
            async with super().open_situation(name) as provider:
                yield provider
            return
        with serve_model() as server:
            server.handle = lambda path, body: self._choose_reply(name, body)  # type: ignore[method-assign]
            async with self.open_module(base_url=server.url + self.path) as provider:
                yield provider

    def _choose_reply(self, name: str, body: bytes) -> Reply:
        is_stream = bool(body) and json.loads(body).get("stream")
        return (
            self.replies["stream"] if is_stream and name == "text" and "stream" in self.replies else self.replies[name]
        )


class SamplingProviderTests(ProviderBehaviorTests):
    """The suite for the model of a client."""

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
