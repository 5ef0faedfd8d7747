"""One MCP endpoint: the registry behind the SDK's server kernel, for any number of connections of either era."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, cast

import anyio
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.server.caching import CacheHint
from mcp.server.context import ServerMiddleware

from mcp_bridge.contracts.identity import Identity
from mcp_bridge.contracts.state import State
from mcp_bridge.dialects.dialect import NONE, Dialect
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.answers import Answers
from mcp_bridge.server.calls import Calls
from mcp_bridge.server.completions import Completion
from mcp_bridge.server.cuts import Cuts
from mcp_bridge.server.kernel import Kernel
from mcp_bridge.server.levels import set_level
from mcp_bridge.server.notices import Notices
from mcp_bridge.server.prompts import Prompts
from mcp_bridge.server.resources import Resources
from mcp_bridge.server.secrecy import Secrecy
from mcp_bridge.server.tools import Tools


class Endpoint:
    """A registry as an MCP server. `started` is set once the sources have published (None: they have).

    `secrets` are left out of all that clients get, `dialect` is how tools are told to them. `run` must be running while
    requests come in: it passes change notices on and owns the calls that ask.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        identity: Identity | None = None,
        *,
        started: anyio.Event | None = None,
        state: State | None = None,
        secrets: Iterable[str] = (),
        dialect: Dialect = NONE,
    ) -> None:
        identity = identity or Identity()
        self.registry = registry
        self.notices = Notices()
        self._secrecy = Secrecy()
        self.hide(secrets)
        scope: Literal["private", "public"] = "private" if identity.private else "public"
        answers = Answers(ttl_ms=identity.ttl_ms, scope=scope, ready=started)
        state, page = state or State(), identity.page
        self._calls = Calls(registry, state, audience=identity.name)
        sizes = {"most": identity.result, "content": identity.content}
        cuts = Cuts(self._calls.store, **sizes, ttl=state.ttl, redactor=self._secrecy.redactor)
        self._tools = Tools(registry, self._calls, answers, cuts, page=page, dialect=dialect)
        self._resources = Resources(registry, self._calls, answers, self.notices, cuts, page=page)
        self._prompts = Prompts(registry, self._calls, answers, page=page)
        self._completion = Completion(registry, answers)
        self.kernel = self._kernel(identity, CacheHint(ttl_ms=identity.ttl_ms, scope=scope))

    def _kernel(self, identity: Identity, hint: CacheHint) -> Kernel:
        kernel = Kernel(
            identity.name,
            version=identity.version,
            title=identity.title,
            instructions=identity.instructions,
            cache_hints={"server/discover": hint},
            get_tool_input_schema=self._tools.listing.input_schema,
            on_subscriptions_listen=self.notices.listen,
        )
        for method, params, handler in self._methods():
            kernel.add_request_handler(method, params, handler)
        kernel.add_notification_handler("notifications/initialized", types.NotificationParams, self.notices.initialized)
        kernel.middleware.append(self._calls.boundary)
        kernel.middleware.insert(0, cast("ServerMiddleware[Any]", self._secrecy))
        return kernel

    def _methods(self) -> list[tuple[str, Any, Any]]:
        """Every method that is served beside those the SDK answers itself."""
        return [
            ("tools/list", types.PaginatedRequestParams, self._tools.list),
            ("tools/call", types.CallToolRequestParams, self._tools.call),
            ("resources/list", types.PaginatedRequestParams, self._resources.list),
            ("resources/templates/list", types.PaginatedRequestParams, self._resources.list_templates),
            ("resources/read", types.ReadResourceRequestParams, self._resources.read),
            ("resources/subscribe", types.SubscribeRequestParams, self._resources.subscribe),
            ("resources/unsubscribe", types.UnsubscribeRequestParams, self._resources.unsubscribe),
            ("prompts/list", types.PaginatedRequestParams, self._prompts.list),
            ("prompts/get", types.GetPromptRequestParams, self._prompts.get),
            ("completion/complete", types.CompleteRequestParams, self._completion.complete),
            ("logging/setLevel", types.SetLevelRequestParams, set_level),
        ]

    def hide(self, secrets: Iterable[str]) -> None:
        """Leave these values out of all that clients get from now on."""
        self._secrecy.hide(secrets)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Pass change notices on and own the calls that ask, until cancelled."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._calls.run)
            await tasks.start(self.notices.run, self.registry)
            task_status.started()

    def end_listeners(self) -> None:
        """End every subscriptions/listen stream with its final result."""
        self.notices.end()

    def end_questions(self) -> None:
        """End the handshake era's questions that wait, and let no new ones begin."""
        self._calls.end_questions()

    def end_calls(self) -> None:
        """End the calls in flight: their clients get an error that says so."""
        self._calls.end()
