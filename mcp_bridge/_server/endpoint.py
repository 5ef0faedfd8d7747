"""Endpoint: a registry as an MCP server, for any number of clients of either era.

Transports call `connect` for each client with a connection, and `handle_stateless` for single requests over HTTP. The
endpoint finds the method in the table of the era, checks the parameters by the schema of the method, and redacts
secrets in the result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cached_property, partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, RpcError
from mcp_bridge._contracts.listing import ToolListing
from mcp_bridge._contracts.state import State
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge._protocol.peer.connection import IncomingRequest, MessageStream, PeerConnection, RequestCounter
from mcp_bridge._protocol.wire.meta_keys import CLIENT_CAPABILITIES
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE, STATELESS, STATELESS_VERSIONS
from mcp_bridge._runtime.tasks import TaskOwner
from mcp_bridge._server.calls.runner import CallRunner
from mcp_bridge._server.change_notices import ChangeNotifier
from mcp_bridge._server.instrumentation import OPEN_TELEMETRY, Instrumentation
from mcp_bridge._server.lifecycle import Lifecycle, set_log_level
from mcp_bridge._server.params import load_param_schemas
from mcp_bridge._server.prompts import PromptMethods
from mcp_bridge._server.redaction import RequestError, SecretRedaction
from mcp_bridge._server.requests import Request, Session, check_version, has_envelope, read_version, truncate_text
from mcp_bridge._server.resources import ResourceMethods
from mcp_bridge._server.responses import Responses
from mcp_bridge._server.tools.methods import ToolMethods
from mcp_bridge._server.truncation import ResultTruncator

if TYPE_CHECKING:
    from mcp_bridge._policies.approvals.desk import QuestionDesk
    from mcp_bridge._server.completions import CompletionMethod
    from mcp_bridge._server.skills import SkillMethods
    from mcp_bridge._server.tasks.methods import TaskMethods

Result = Any
"""The result of a request: a mapping, or a fragment of JSON."""
Method = Callable[[Request, Mapping[str, Any]], Result | Coroutine[Any, Any, Result]]
"""Serves a request. Returns the result, or a coroutine that returns it. Raises RpcError."""


class Endpoint:
    """A registry as an MCP server. `run` must be running while requests arrive.

    Args:
        identity: How the server presents itself, and its limits.
        started: Set once the sources have published. None: they have published already.
        state: Where suspended calls and tasks are kept.
        secrets: Values to redact in everything clients receive.
        dialect: How tools are presented to clients.

    Attributes:
        tools: The methods of tools, with the tools as clients see them.
        calls: Runs the calls of clients.
        redactor: Redacts secrets for clients.
        instrumentation: Measures and traces messages.
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
        self._redaction = SecretRedaction()
        self.redactor = self._redaction.redactor
        self.hide(secrets)
        self._responses = responses = Responses(
            identity, self.redactor, ready=started, report_listing=registry.report_listing
        )
        self._notifier = ChangeNotifier(responses, registry.subscriptions)
        state = state or State()
        page = identity.page
        audience = state.name or identity.name
        self.calls = runner = CallRunner(registry, state, audience=audience)
        truncator = ResultTruncator(
            lambda: runner.store,
            text_limit=identity.result,
            content_limit=identity.content,
            ttl=state.ttl,
            redactor=self.redactor,
        )
        listing = identity.listing
        self.tools = ToolMethods(
            registry, runner.run_call, responses, truncator, page=page, dialect=dialect, listing=listing
        )
        resources = ResourceMethods(registry, runner, responses, self._notifier, truncator, page=page)
        prompts = PromptMethods(registry, runner, responses, page=page)
        if listing.built_in:
            self._add_built_in_tools(listing, resources, prompts, truncator)
        self._tasks = tasks = self._make_tasks(state, audience)
        skills = self._make_skills(identity)
        self._lifecycle = lifecycle = Lifecycle(
            identity,
            responses,
            extensions=skills.extensions if skills is not None else {},
            stateless_extensions=tasks.extensions if tasks is not None else {},
        )
        common: dict[str, Method] = {
            "tools/list": self.tools.list_tools,
            "tools/call": self.tools.call if tasks is None else tasks.call_tool,
            "resources/list": resources.list_resources,
            "resources/templates/list": resources.list_templates,
            "resources/read": resources.read_resource,
            "prompts/list": prompts.list_prompts,
            "prompts/get": prompts.get,
            "completion/complete": self._complete_argument,
            **(skills.methods if skills is not None else {}),
        }
        self._stateless_methods: dict[str, Method] = common | {
            "server/discover": lifecycle.discover,
            "subscriptions/listen": self._notifier.listen,
            **(tasks.methods if tasks is not None else {}),
        }
        self._handshake_methods: dict[str, Method] = common | {
            "initialize": lifecycle.initialize,
            "ping": lambda request, params: {},
            "resources/subscribe": resources.subscribe,
            "resources/unsubscribe": resources.unsubscribe,
            "logging/setLevel": set_log_level,
        }
        methods = self._stateless_methods.keys() | self._handshake_methods.keys()
        self.instrumentation = Instrumentation(self.redactor, methods, self._is_published)

    def _make_tasks(self, state: State, audience: str) -> TaskMethods | None:
        if state.tasks is None:
            return None
        # Most servers have no tasks, and start faster without this module.
        from mcp_bridge._server.tasks.methods import TaskMethods

        return TaskMethods(
            state.tasks,
            self.registry,
            self.tools,
            self._responses,
            self._notifier,
            state,
            audience=audience,
            get_store=self.calls.get_session_store,
        )

    def _make_skills(self, identity: Identity) -> SkillMethods | None:
        if not identity.has_skills:
            return None
        # Most servers have no skills, and start faster without this module.
        from mcp_bridge._server.skills import SkillMethods

        return SkillMethods(self.registry, self._responses, page=identity.page)

    def _add_built_in_tools(
        self, listing: ToolListing, resources: ResourceMethods, prompts: PromptMethods, truncator: ResultTruncator
    ) -> None:
        from mcp_bridge._server.tools import entry_tools
        from mcp_bridge._server.tools import search as tool_search

        index = self.tools.index
        if listing.search is not None:
            index.add_built_in(tool_search.ToolSearch(self.registry, index).build_tools())
        if listing.resources:
            index.add_built_in(entry_tools.ResourceTools(self.registry, resources, truncator).build_tools())
        if listing.prompts:
            index.add_built_in(entry_tools.PromptTools(prompts).build_tools())

    @cached_property
    def _completions(self) -> CompletionMethod:
        # Only the first completion needs this module, not the start.
        from mcp_bridge._server.completions import CompletionMethod

        return CompletionMethod(self.registry, self._responses)

    def _complete_argument(self, request: Request, params: Mapping[str, Any]) -> Result:
        return self._completions.complete_argument(request, params)

    def describe_server(self, identity: Identity) -> None:
        """Present the server to clients with the name, version, title and instructions of this identity."""
        self._responses.describe_server(identity)

    def connect(
        self,
        stream: MessageStream,
        tasks: TaskOwner,
        counter: RequestCounter | None = None,
        *,
        principal: str | None = None,
        client: str | None = None,
        transport: str = "",
    ) -> ClientConnection:
        """Return a connection for a client of either era.

        Args:
            stream: Carries messages to the client that belong to no request.
            tasks: Runs requests.
            counter: Counts requests in flight.
            principal: The authenticated client, or None.
            client: The key of the client for its quotas. None: it is the only client.
            transport: The name of the transport, for metrics and authors.
        """
        return ClientConnection(self, stream, tasks, counter, principal=principal, client=client, transport=transport)

    def use_desk(self, desk: QuestionDesk) -> None:
        """Ask users at this desk if the client of a call cannot ask them."""
        self.calls.desk = desk
        if self._tasks is not None:
            self._tasks.desk = desk

    def watch_sessions(self, listener: Callable[[Session], None]) -> None:
        """Call `listener` with the session of each connected handshake client, and of each later one."""
        self._lifecycle.on_session = listener
        for session in list(self._lifecycle.sessions):
            listener(session)

    def handle_stateless(self, incoming: IncomingRequest, *, version: str | None = None) -> Any:
        """Serve a request of the stateless era. Returns the result, or a coroutine for it. Raises RpcError.

        `version` is the protocol version of the request, if the caller has already read it.
        """
        version = read_version(incoming.params) if version is None else version
        check_version(version)
        capabilities = incoming.params["_meta"][CLIENT_CAPABILITIES]
        request = Request(incoming, self.redactor, version=version, session=None, capabilities=capabilities)
        return self._dispatch(self._stateless_methods, request)

    def handle_handshake(self, incoming: IncomingRequest, session: Session) -> Any:
        """Serve a request of a handshake client. Returns the result, or a coroutine for it. Raises RpcError."""
        method, version = incoming.method, session.version or HANDSHAKE
        if method in self._handshake_methods:
            if not session.version and method not in ("initialize", "ping"):
                raise RpcError(INVALID_REQUEST, "Invalid Request: send initialize first")
            if session.version and method == "initialize":
                raise RpcError(INVALID_REQUEST, "Invalid Request: this connection is already initialized")
        request = Request(incoming, self.redactor, version=version, session=session, capabilities=session.capabilities)
        return self._dispatch(self._handshake_methods, request)

    def handle_notification(self, method: str, params: Mapping[str, Any], session: Session) -> None:
        """Handle a notification of a handshake client. Raises RpcError for invalid parameters."""
        accept = partial(self._accept_notification, method, params, session)
        # Without anything to measure, the observation costs nothing.
        if not self.instrumentation.recorders and OPEN_TELEMETRY not in sys.modules:
            accept()
            return
        version, transport = session.version or HANDSHAKE, session.client.transport
        self.instrumentation.observe(accept, method, params, version=version, transport=transport, session=session)

    def _accept_notification(self, method: str, params: Mapping[str, Any], session: Session) -> None:
        if session.version:
            schema = load_param_schemas(session.version).get(method)
            if schema is not None and not schema.is_valid(params):
                raise schema.make_error(method, params)
            if method == "notifications/initialized":
                self._notifier.add_session(session)

    def _dispatch(self, methods: Mapping[str, Method], request: Request) -> Any:
        if not self.instrumentation.recorders and OPEN_TELEMETRY not in sys.modules:
            return self._serve(methods, request)
        incoming = request.incoming
        return self.instrumentation.observe(
            partial(self._serve, methods, request),
            incoming.method,
            request.params,
            version=request.version,
            transport=incoming.transport,
            session=request.session,
            request_id=request.id,
        )

    def _is_published(self, method: str, name: str) -> bool:
        """Return whether the tool or prompt that a request names exists on this server."""
        if method == "tools/call":
            return self.tools.index.has_tool(name)
        return method == "prompts/get" and self.registry.prompts.get(name) is not None

    def _serve(self, methods: Mapping[str, Method], request: Request) -> Any:
        name = request.incoming.method
        method = methods.get(name)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", truncate_text(name))
        params = request.params
        schema = load_param_schemas(request.version).get(name)
        if schema is not None and not schema.is_valid(params):
            raise schema.make_error(name, params)
        if self.redactor.is_empty:
            return method(request, params)
        try:
            outcome = method(request, params)
        except RequestError:
            raise
        except RpcError as error:
            raise self._redaction.redact_error(error) from error
        if type(outcome) is CoroutineType:
            return self._redact_later(outcome)
        return self._redaction.redact_result(outcome)

    async def _redact_later(self, outcome: Coroutine[Any, Any, Result]) -> Result:
        try:
            return self._redaction.redact_result(await outcome)
        except RequestError:
            raise
        except RpcError as error:
            raise self._redaction.redact_error(error) from error

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these values, too, in everything clients receive from now on."""
        self._redaction.hide(secrets)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send change notifications and own the suspended calls, until cancelled."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self.calls.run)
            await tasks.start(self._notifier.run, self.registry)
            if self._tasks is not None:
                await tasks.start(self._tasks.run_tasks)
            task_status.started()

    async def run_worker(self) -> None:
        """Run tasks that servers have submitted to a shared store, until cancelled, without serving clients."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self.calls.run)
            if self._tasks is not None:
                await self._tasks.run_tasks()

    def limit_subscriptions(self, limit: int) -> None:
        """Limit the number of open subscriptions/listen streams, because each of them may keep a connection open."""
        self._notifier.limit_streams(limit)

    def close_subscriptions(self) -> None:
        self._notifier.close_streams()


class ClientConnection(PeerConnection):
    """Serves one client over a connection. The transport calls `receive` for each message and, at the end, `close`.

    The first request determines the era of the connection. For the parameters, see `Endpoint.connect`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        stream: MessageStream,
        tasks: TaskOwner,
        counter: RequestCounter | None = None,
        *,
        principal: str | None = None,
        client: str | None = None,
        transport: str = "",
    ) -> None:
        super().__init__(self, stream, tasks, counter)
        self._principal = principal
        self._client = client
        self._transport = transport
        self._endpoint = endpoint
        # The era of the connection; None before the request that determines it.
        self._is_stateless: bool | None = None
        self.session = Session(self, endpoint.redactor, transport=transport, principal=principal)

    def close(self) -> None:
        """End the connection: cancel the client's requests and the session."""
        super().close()
        self.session.end()
        self._endpoint.instrumentation.record_session(self.session)

    def handle_request(self, request: IncomingRequest) -> Any:
        """Serve a request in the era of the connection (2026-07-28, basic/lifecycle)."""
        request.principal = self._principal
        request.client = self._client
        request.transport = self._transport
        if self._is_stateless is None:
            if request.method == "initialize":
                self._is_stateless = False
            elif has_envelope(request.params):
                self._is_stateless = True
        if not self._is_stateless:
            if "_meta" in request.params and has_envelope(request.params) and request.method != "initialize":
                message = f"this connection has begun with a handshake; requests of {STATELESS} need another one"
                raise RpcError(INVALID_REQUEST, f"Invalid Request: {message}")
            return self._endpoint.handle_handshake(request, self.session)
        if request.method == "initialize":
            version = request.params.get("protocolVersion")
            data = {"supported": list(STATELESS_VERSIONS)}
            if isinstance(version, str):
                data["requested"] = truncate_text(version)  # type: ignore[assignment]
            message = f"this connection has begun with requests of {STATELESS}, which has no initialize"
            raise RpcError(UNSUPPORTED_VERSION, message, data)
        return self._endpoint.handle_stateless(request)

    def handle_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification. In the stateless era, clients send none except about requests in flight."""
        if not self._is_stateless:
            self._endpoint.handle_notification(method, params, self.session)
