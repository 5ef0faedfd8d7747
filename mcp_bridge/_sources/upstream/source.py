"""UpstreamSource: keeps a connection to one MCP server, and publishes the offer of the server.

A client never waits for a server longer than necessary, and a restart of the server changes nothing for it:

- STARTING: `restore` publishes the stored catalogue. If the first attempt to connect takes longer than START_TIMEOUT,
  clients get only this catalogue at first.
- READY: the lists are read, published and stored. Changes are collected, and then the lists are read again.
- DEGRADED: the connection has ended, or a list cannot be read. The last offer stays published. `run` connects again:
  at once after a stable connection, else with waits that double, or as soon as a call needs the server.
- BROKEN: several attempts have failed. Only the first call waits for the next attempt, the others fail at once.

Each attempt has an event, `_attempt`. It is set when the attempt has succeeded or failed, which releases the calls that
wait for it, and then a new event takes its place. `guard` decides which definitions are published, and ClientSessions
has further connections: those of single clients, and one in the other era. `serve_further` serves each of them.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._contracts.errors import SourceError, ToolUnavailable
from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, METHOD_NOT_FOUND, RpcError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.source import (
    STILL_STARTING,
    Offer,
    Publish,
    Source,
    SourceContext,
    SourceServices,
    SourceState,
    SourceStatus,
    StartTurns,
)
from mcp_bridge._runtime.token_bucket import TokenBucket
from mcp_bridge._sources.upstream.client_sessions import ClientSessions, MissingEra
from mcp_bridge._sources.upstream.credentials import CredentialAddress
from mcp_bridge._sources.upstream.entries import EntryBuilder
from mcp_bridge._sources.upstream.eras import EraChoice
from mcp_bridge._sources.upstream.listing import OfferReader
from mcp_bridge._sources.upstream.options import UpstreamOptions
from mcp_bridge._sources.upstream.resource_follower import ResourceFollower
from mcp_bridge._sources.upstream.stored_catalogue import CatalogueFile, SharedCatalogue, StoredCatalogue
from mcp_bridge._upstream.connection import ConnectionLink, NoListener, serve_connection
from mcp_bridge._upstream.messages import NOT_RECEIVED
from mcp_bridge._upstream.session import Era, UpstreamSession
from mcp_bridge._upstream.stream_retries import StreamRetries
from mcp_bridge._upstream.trust.fingerprints import DefinitionKey, is_page
from mcp_bridge._upstream.trust.guard import DefinitionGuard
from mcp_bridge._upstream.trust.screening import shorten_text

logger = logging.getLogger("mcp_bridge.sources.upstream")

START_TURN = 1.0
"""Seconds for which the start of a server delays the starts of others. After that, most slow servers only wait."""
START_TIMEOUT = 1.2
"""Seconds after which clients are served without this source. Its offer is published once it is connected."""
STORE_TIMEOUT = 0.5
"""Seconds after which a server starts without its stored catalogue: a shared store may be unavailable."""
FIRST_WAIT, MAX_WAIT = 0.5, 60.0
"""Seconds before the second attempt to connect, and the maximum before a later one. Each wait is twice the last."""
MIN_WAIT, MAX_MIN_WAIT = 0.2, 0.8
"""The minimum of seconds between two attempts if a call or a request for a list causes the second one.

It doubles with each failure, up to MAX_MIN_WAIT, so that a client that lists all the time does not start a program all
the time.
"""
STABLE = 10.0
"""Seconds after which a connection counts as stable. If a stable one ends, the next attempt follows at once."""
CALL_TIMEOUT = 5.0
"""Seconds that a call waits for the connection."""
BROKEN_AFTER = 3
"""The number of failures in a row after which only the first call waits for an attempt, and the others fail at once."""
CHANGE_DELAY = 0.05
"""Seconds for which changes of lists are collected before the lists are read again."""
CHANGE_RATE, CHANGE_BURST = 0.5, 5
"""How often lists are read again because of changes: per second on average, and in one burst."""
REREAD_INTERVAL = 30.0
"""Seconds after which lists are read again if one of them could not be read."""


class UpstreamSource(Source):
    """Publishes the tools, resources and prompts of an MCP server.

    Attributes:
        status: The state of the connection.
        choice: Chooses the era of each connection and call.
        guard: Decides which definitions are published.
    """

    Options = UpstreamOptions
    has_prefix = True
    describes_server = True
    reads_secrets = True
    status: SourceStatus

    def __init__(self, name: str, options: UpstreamOptions, context: SourceContext) -> None:
        super().__init__(name, options, context)
        self.choice = EraChoice(options.protocol, follows_clients=options.url is not None)
        self.guard = DefinitionGuard(name, changes=options.changes)
        self.status = SourceStatus(state=SourceState.STARTING, since=time.time(), reason=STILL_STARTING)
        self._address = options.build_address(name, context.directory)
        self._start_timeout = options.start_timeout
        self._stored: StoredCatalogue | None = None
        self._writes_catalogue = True
        # The session of the first connection while it can be used.
        self._session: UpstreamSession | None = None
        # The number of failures in a row.
        self._failures = 0
        self._has_connected = False
        # Whether a call waits for the current attempt.
        self._is_awaited = False
        self._attempt = anyio.Event()
        # Set if a client needs the server, so that the next attempt begins earlier.
        self._attempt_wanted = anyio.Event()
        self._lists_changed = anyio.Event()
        self._client_sessions = ClientSessions(self, options)
        self._reader = OfferReader()
        self._follower = ResourceFollower()
        self._published: Offer | None = None
        self._publish: Publish = lambda offer: None
        if context.settings_file is not None and context.open_lock is not None:
            self.guard.use_lock(context.open_lock())
            entry = options.compute_digest()
            file = CatalogueFile(context.settings_file, name)
            place = file if context.store is None else SharedCatalogue(context.store, name, entry)
            self._stored = StoredCatalogue(place, name, entry)

    @classmethod
    def choose_name(cls, options: UpstreamOptions) -> str:
        """Return the name of the program."""
        return Path(options.command).stem if options.command is not None else "server"

    def follow_resource(self, uri: str, *, is_wanted: bool) -> None:
        """Begin or end to report the changes of a resource, if the server has it."""
        self._follower.follow_resource(uri, is_wanted=is_wanted)

    async def wait_until_followed(self) -> None:
        """Wait until the server has confirmed the subscriptions, if it is connected."""
        await self._follower.wait_until_followed()

    def attach(self, services: SourceServices) -> None:
        """Report the credentials of the server before they are used."""
        super().attach(services)
        if isinstance(self._address, CredentialAddress):
            self._address.add_secrets = services.hide_secrets

    def disable_recording(self) -> None:
        """Write no files from now on."""
        self._writes_catalogue = False
        self.guard.can_write_lock = False

    def request_attempt(self) -> None:
        """Try to connect soon, if there is no connection."""
        if self._session is None:
            self._attempt_wanted.set()

    def handle_list_change(self) -> None:
        """Read the lists again soon."""
        self._lists_changed.set()

    def handle_resource_update(self, uri: str) -> None:
        """Pass the change of a resource on."""
        if self.services.report_update is not None:
            self.services.report_update(uri)

    async def restore(self, publish: Publish) -> None:
        """Publish the stored catalogue, which clients get until the server is connected."""
        self._publish = publish
        catalogue = None
        if self._stored is not None:
            with anyio.move_on_after(STORE_TIMEOUT):
                catalogue = await self._stored.read_catalogue()
        if catalogue is not None:
            builder = EntryBuilder(self._client_sessions, completes=catalogue.completes)
            self._follower.update_offer(self._reader.restore_catalogue(catalogue, builder))
        if self._reader.offer.entries:
            self._publish_problem()

    async def run(self, publish: Publish) -> None:
        """Connect, publish, and connect again whenever the connection ends."""
        self._publish = publish
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._publish_if_slow, self._attempt)
            tasks.start_soon(self.guard.follow_lock, self._publish_again)
            tasks.start_soon(self._client_sessions.run)
            wait = FIRST_WAIT
            while True:
                if self.services.starts is not None:
                    await tasks.start(_hold_turn, self.services.starts, self._attempt)
                try:
                    # Returns at the end of a stable connection.
                    await self._connect_once()
                    wait = FIRST_WAIT
                except SourceError:
                    # The jitter keeps servers that failed together from starting together.
                    jitter = random.uniform(0, FIRST_WAIT)  # noqa: S311 - jitter is no secret
                    await self._wait_before_attempt(min(wait + jitter, MAX_WAIT))
                    wait = min(2 * wait, MAX_WAIT)

    async def wait_for_attempt(self) -> None:
        """Wait until the first attempt to connect, or a requested one, has succeeded or failed."""
        has_attempt = self.status.state is SourceState.STARTING or self._attempt_wanted.is_set()
        if has_attempt and self._should_wait():
            await self._attempt.wait()

    async def forward(self, method: str, params: dict[str, Any], ctx: RunningCall) -> Mapping[str, Any]:
        """Send the request of a call. Raises RpcError and ToolUnavailable."""
        session = self._session
        if session is None:
            session = await self._wait_for_session()
            # The new connection may have changed the definition.
            self.check_accepted(method, params)
        try:
            return await session.relay(method, params, ctx)
        except RpcError as error:
            if error.code != NOT_RECEIVED:
                raise
        session = await self._wait_for_session()
        self.check_accepted(method, params)
        # The server has not begun the call, so it can be repeated.
        return await session.relay(method, params, ctx)

    async def request_completion(self, params: dict[str, Any]) -> Mapping[str, Any]:
        """Send completion/complete. Raises RpcError and ToolUnavailable."""
        session = await self.require_session()
        return await session.send_request("completion/complete", params)

    async def require_session(self) -> UpstreamSession:
        """Return the session of the first connection. Raises ToolUnavailable."""
        if self._session is not None:
            return self._session
        return await self._wait_for_session()

    async def serve_further(
        self, link: ConnectionLink, era: Era, on_ready: Callable[[frozenset[str]], None], *, has_one_client: bool
    ) -> str:
        """Serve a further connection in an era until it ends, and return why it did.

        `on_ready` gets the names of the tools whose definitions differ from the published ones. Raises MissingEra if
        the server does not speak the era.
        """
        lacks_era = False

        async def serve_calls(session: UpstreamSession, link: ConnectionLink, limit: anyio.CancelScope) -> None:
            nonlocal lacks_era
            try:
                await session.negotiate([era])
            except RpcError as error:
                # Without a connection, the failure shows nothing about the era.
                lacks_era = era != self.choice.first_era and error.code not in (NOT_RECEIVED, CONNECTION_CLOSED)
                raise
            session.declare_headers((tool.name, tool.input_schema) for tool in self._reader.offer.tools)
            changed_tools: frozenset[str] = frozenset()
            if era == self.choice.first_era:
                # In the other era, definitions may differ without a reason for suspicion, so they are not compared.
                reader = OfferReader()
                offer = await reader.read_offer(session, EntryBuilder(self), self._start_timeout, names=["tools"])
                changed_tools = self.guard.find_changed(offer.tools, self._reader.offer.tools)
            # The time limit is only for the start.
            limit.deadline = math.inf
            on_ready(changed_tools)
            await link.ended.wait()

        listener = NoListener() if has_one_client else self
        reason = await serve_connection(
            self.name, self._address, listener, link, serve_calls, self._start_timeout, has_one_client=has_one_client
        )
        if lacks_era:
            raise MissingEra
        return reason

    async def _wait_for_session(self) -> UpstreamSession:
        """Cause an attempt to connect, and return the session as soon as it succeeds. Raises ToolUnavailable."""
        attempt = self._attempt
        self._attempt_wanted.set()
        if self._should_wait():
            with anyio.move_on_after(CALL_TIMEOUT):
                await attempt.wait()
        if self._session is None:
            raise ToolUnavailable(self.status.describe_absence(self.name))
        return self._session

    def _should_wait(self) -> bool:
        """Return whether a call should wait for the next attempt. After several failures, only the first call does."""
        is_first_call = not self._is_awaited
        self._is_awaited = True
        return self._session is None and (self._failures < BROKEN_AFTER or is_first_call)

    def check_accepted(self, method: str, params: Mapping[str, Any]) -> None:
        """Raise DefinitionChanged if the definition of the called entry waits for the user to accept it."""
        if method == "tools/call":
            self.guard.check_entry(DefinitionKey("tools", params["name"]))
        elif method == "prompts/get":
            self.guard.check_entry(DefinitionKey("prompts", params["name"]))
        elif method == "resources/read" and is_page(params["uri"]):
            self.guard.check_entry(DefinitionKey("resources", params["uri"]))

    async def _wait_before_attempt(self, seconds: float) -> None:
        """Wait for these seconds, or until a client needs the server, but at least for MIN_WAIT and its doublings."""
        # Without a limit, the power would become a huge number.
        doublings = min(self._failures - 1, 10)
        minimum = min(seconds, MIN_WAIT * 2**doublings, MAX_MIN_WAIT)
        await anyio.sleep(minimum)
        with anyio.move_on_after(seconds - minimum):
            await self._attempt_wanted.wait()

    def _finish_attempt(self) -> None:
        """Release the calls that wait for the current attempt. Later calls wait for the next one."""
        self._attempt.set()
        self._attempt = anyio.Event()
        self._attempt_wanted = anyio.Event()
        self._is_awaited = False

    async def _publish_if_slow(self, attempt: anyio.Event) -> None:
        """Publish an offer without the server if the first attempt takes long, so clients need not wait."""
        with anyio.move_on_after(START_TIMEOUT):
            await attempt.wait()
        if self._session is None:
            self._publish_problem()

    def _publish_problem(self) -> None:
        problem = f"the server is not connected: {self.status.reason}"
        self._publish_offer(replace(self._reader.offer, problems=[problem]))

    def _publish_offer(self, offer: Offer) -> None:
        if offer != self._published:
            self._published = offer
            self._publish(self.guard.review(offer, is_from_catalogue=not self._has_connected))

    def _publish_again(self) -> None:
        """Review the last offer again, because the user has accepted definitions."""
        if self._published is not None:
            self._publish(self.guard.review(self._published, is_from_catalogue=not self._has_connected))

    def _set_state(self, state: SourceState, reason: str) -> None:
        old = self.status
        since = old.since if old.state is state else time.time()
        self.status = replace(old, state=state, since=since, reason=reason, failures=self._failures)

    async def _connect_once(self) -> None:
        """Serve one connection until it ends. Raises SourceError if it was not stable."""
        link = ConnectionLink(self._handle_end)
        problem = await serve_connection(self.name, self._address, self, link, self._serve_session, self._start_timeout)
        is_stable = link.began is not None and anyio.current_time() - link.began >= STABLE
        self._failures = 1 if is_stable else self._failures + 1
        if self._has_connected and self._reader.offer.entries and self._failures < BROKEN_AFTER:
            self._set_state(SourceState.DEGRADED, problem)
        else:
            self._set_state(SourceState.BROKEN, problem)
        # A successful attempt was finished in `_serve_session`.
        if link.began is None:
            self._finish_attempt()
        self._publish_problem()
        if not is_stable:
            raise SourceError(problem)

    async def _serve_session(self, session: UpstreamSession, link: ConnectionLink, limit: anyio.CancelScope) -> None:
        try:
            await session.negotiate(self.choice.eras)
        except RpcError as error:
            # Some servers end at a request that they do not know, so the next attempt begins with the other era.
            if error.code != NOT_RECEIVED:
                self.choice.prefer_other_era()
            raise
        self.choice.adopt_era(session.era)
        await self._read_offer(session)
        # The time limit is only for the start.
        limit.deadline = math.inf
        link.began = anyio.current_time()
        self._session = session
        self._has_connected = True
        info = {key: shorten_text(str(session.info.get(key) or "")) for key in ("name", "version")}
        self.status = replace(self.status, server=info["name"], version=info["version"])
        self._finish_attempt()
        self._publish_session()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_changes, session)
            if session.is_stateless:
                tasks.start_soon(self._receive_changes, session)
            if session.can_subscribe:
                tasks.start_soon(self._follower.run, session)
            await link.ended.wait()
            tasks.cancel_scope.cancel()

    def _handle_end(self, reason: str) -> None:
        """Stop using the session as soon as its connection ends, although its process may still run."""
        if self._session is not None:
            self._session = None
            self._set_state(SourceState.DEGRADED, reason)

    def _publish_session(self) -> None:
        failure = self._reader.failure
        if failure is None:
            self._set_state(SourceState.READY, "")
        else:
            self._set_state(SourceState.DEGRADED, shorten_text(str(failure)))
        self._publish_offer(self._reader.offer)

    async def _follow_changes(self, session: UpstreamSession) -> None:
        """Store the catalogue, and read the lists again after changes, until cancelled."""
        budget = TokenBucket(rate=CHANGE_RATE, burst=CHANGE_BURST)
        while True:
            if self._stored is not None and self._writes_catalogue:
                await self._stored.write_catalogue(self._reader.build_catalogue())
            with anyio.move_on_after(REREAD_INTERVAL if self._reader.failure else math.inf):
                await self._lists_changed.wait()
            await anyio.sleep(CHANGE_DELAY)
            # The event is new before the lists are read, so that a change in the meantime is not lost.
            self._lists_changed = anyio.Event()
            try:
                await self._read_offer(session)
            except RpcError as error:
                logger.warning(
                    "server '%s': its lists could not be read again: %s", self.name, shorten_text(str(error))
                )
            else:
                self._publish_session()
            budget.charge(1)
            await budget.wait_while_empty()

    async def _receive_changes(self, session: UpstreamSession) -> None:
        """Receive the changes of lists of a stateless server, on a stream, opened again at its end."""
        retries = StreamRetries()
        while True:
            retries.start_stream()
            try:
                await session.receive_changes()
            except RpcError as error:
                if error.code == METHOD_NOT_FOUND:
                    return
            if not await retries.pause(FIRST_WAIT):
                return

    async def _read_offer(self, session: UpstreamSession) -> None:
        builder = EntryBuilder(self._client_sessions, completes="completions" in session.capabilities)
        offer = await self._reader.read_offer(session, builder, self._start_timeout)
        self._follower.update_offer(offer)
        self.choice.read_tools(offer.tools)
        session.declare_headers((tool.name, tool.input_schema) for tool in offer.tools)


async def _hold_turn(
    turns: StartTurns, attempt: anyio.Event, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Hold a turn for a start until the attempt to connect has ended, or START_TURN is over."""
    await turns.acquire_on_behalf_of(attempt)
    try:
        task_status.started()
        with anyio.move_on_after(START_TURN):
            await attempt.wait()
    finally:
        turns.release_on_behalf_of(attempt)
