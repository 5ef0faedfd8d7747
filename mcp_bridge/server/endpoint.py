"""One MCP endpoint: the registry behind the SDK's server, for any number of connections of either era."""

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
from mcp_bridge.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.calls import CallRunner
from mcp_bridge.server.change_notices import ChangeNotifier
from mcp_bridge.server.completions import CompletionMethod
from mcp_bridge.server.context import set_level
from mcp_bridge.server.kernel import Kernel
from mcp_bridge.server.prompts import PromptMethods
from mcp_bridge.server.redaction import SecretRedaction
from mcp_bridge.server.resources import ResourceMethods
from mcp_bridge.server.responses import Responses
from mcp_bridge.server.tools import ToolMethods
from mcp_bridge.server.truncation import ResultTruncator


class Endpoint:
    """A registry as an MCP server. `run` must be running while requests arrive.

    Args:
        started: Set once the sources have published; None means that they have.
        secrets: Values that are redacted in everything that clients receive.
        dialect: How tools are presented to clients.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        identity: Identity | None = None,
        *,
        started: anyio.Event | None = None,
        state: State | None = None,
        secrets: Iterable[str] = (),
        dialect: SchemaDialect = NO_DIALECT,
    ) -> None:
        identity = identity or Identity()
        self.registry = registry
        self._notifier = ChangeNotifier()
        self._redaction = SecretRedaction()
        self.hide(secrets)
        scope: Literal["private", "public"] = "private" if identity.private else "public"
        responses = Responses(ttl_ms=identity.ttl_ms, scope=scope, ready=started)
        state, page = state or State(), identity.page
        self._runner = CallRunner(registry, state, audience=identity.name)
        sizes = {"most": identity.result, "content": identity.content}
        truncator = ResultTruncator(self._runner.store, **sizes, ttl=state.ttl, redactor=self._redaction.redactor)
        self._tools = ToolMethods(registry, self._runner, responses, truncator, page=page, dialect=dialect)
        self._resources = ResourceMethods(registry, self._runner, responses, self._notifier, truncator, page=page)
        self._prompts = PromptMethods(registry, self._runner, responses, page=page)
        self._completion = CompletionMethod(registry, responses)
        self.kernel = self._build_kernel(identity, CacheHint(ttl_ms=identity.ttl_ms, scope=scope))

    def _build_kernel(self, identity: Identity, hint: CacheHint) -> Kernel:
        kernel = Kernel(
            identity.name,
            version=identity.version,
            title=identity.title,
            instructions=identity.instructions,
            cache_hints={"server/discover": hint},
            get_tool_input_schema=self._tools.index.get_input_schema,
            on_subscriptions_listen=self._notifier.listen,
        )
        for method, params, handler in self._list_methods():
            kernel.add_request_handler(method, params, handler)
        initialized = "notifications/initialized"
        kernel.add_notification_handler(initialized, types.NotificationParams, self._notifier.handle_initialized)
        kernel.middleware.append(self._runner.boundary)
        kernel.middleware.insert(0, cast("ServerMiddleware[Any]", self._redaction))
        return kernel

    def _list_methods(self) -> list[tuple[str, Any, Any]]:
        """List all methods except those that the SDK serves by itself."""
        return [
            ("tools/list", types.PaginatedRequestParams, self._tools.list_tools),
            ("tools/call", types.CallToolRequestParams, self._tools.call),
            ("resources/list", types.PaginatedRequestParams, self._resources.list_resources),
            ("resources/templates/list", types.PaginatedRequestParams, self._resources.list_templates),
            ("resources/read", types.ReadResourceRequestParams, self._resources.read_resource),
            ("resources/subscribe", types.SubscribeRequestParams, self._resources.subscribe),
            ("resources/unsubscribe", types.UnsubscribeRequestParams, self._resources.unsubscribe),
            ("prompts/list", types.PaginatedRequestParams, self._prompts.list_prompts),
            ("prompts/get", types.GetPromptRequestParams, self._prompts.get),
            ("completion/complete", types.CompleteRequestParams, self._completion.complete),
            ("logging/setLevel", types.SetLevelRequestParams, set_level),
        ]

    def hide(self, secrets: Iterable[str]) -> None:
        self._redaction.hide(secrets)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send change notifications and own the suspended calls, until cancelled."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._runner.run)
            await tasks.start(self._notifier.run, self.registry)
            task_status.started()

    def close_subscriptions(self) -> None:
        self._notifier.close_streams()

    def reject_questions(self) -> None:
        self._runner.reject_questions()

    def cancel_calls(self) -> None:
        self._runner.cancel_calls()
