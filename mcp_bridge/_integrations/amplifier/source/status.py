"""Publishes the status of a source as two resources: the mounted modules of the caller's session, and their
contributions to channels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import anyio

from mcp_bridge._contracts.errors import CallError
from mcp_bridge._contracts.resource import ResourceEntry
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.amplifier.coordinator import NAMED_POINTS, ModuleCoordinator
from mcp_bridge._integrations.amplifier.session import ModuleSession, ModuleState
from mcp_bridge._integrations.amplifier.sessions.module_sessions import ModuleSessions
from mcp_bridge._integrations.amplifier.source.git import redact_userinfo
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation, resolve_awaitable

logger = logging.getLogger("mcp_bridge.amplifier")

JSON = "application/json"
# The timeout of one contributor, in seconds.
CONTRIBUTOR_TIMEOUT = 5.0


class StatusResources:
    """The resources of a source. A client reads about its own session only, and how many sessions there are."""

    def __init__(self, name: str, sessions: ModuleSessions) -> None:
        base = f"amplifier://{quote(name, safe='')}"
        self._name = name
        self._sessions = sessions
        self.uri = f"{base}/status"
        status = "The Amplifier modules of this session: what is mounted, what has failed, and the hooks of each event."
        channels = "What the Amplifier modules of this session contribute to their channels, collected on each read."
        self.entries = (
            ResourceEntry(self.uri, self._read_status, f"{name} status", status, mime_type=JSON),
            ResourceEntry(
                f"{base}/contributions", self._read_contributions, f"{name} contributions", channels, mime_type=JSON
            ),
        )

    async def _read_status(self, _: Any, ctx: RunningCall) -> dict[str, Any]:
        try:
            async with self._sessions.lease(ctx) as module_session:
                session: dict[str, Any] | None = _describe_session(module_session)
        except CallError:
            # The caller has no session and gets none, for example because all are in use. The counts below show it.
            session = None
        limits = self._sessions.limits
        counts = {"in_use": self._sessions.in_use, "most": limits.limit, "shared": limits.shared}
        status = {"source": self._name, "sessions": counts, "session": session}
        conversations = self._sessions.conversations_in_use
        if conversations is not None:
            status["conversations"] = {"in_use": conversations, "most": limits.conversations}
        return status

    async def _read_contributions(self, _: Any, ctx: RunningCall) -> dict[str, Any]:
        async with self._sessions.lease(ctx) as session:
            coordinator = session.coordinator
            channels = {}
            for channel in _list_contributors(coordinator):
                channels[channel] = await collect_contributions(coordinator, channel)
        return {"source": self._name, "session": str(coordinator.session_id), "channels": channels}


async def collect_contributions(coordinator: Any, channel: str) -> list[dict[str, Any]]:
    """Return the contributions to a channel, in order.

    Each has the `name` of its contributor and either its `value`, as JSON, or the type of the `error`. The text of an
    error goes to the log only. None is left out.
    """
    contributions = []
    for name, callback in _list_contributors(coordinator).get(channel, ()):
        contribution: dict[str, Any] = {"name": str(name), "error": "TimeoutError"}
        with anyio.move_on_after(CONTRIBUTOR_TIMEOUT) as scope:
            try:
                contribution = {"name": str(name), "value": to_plain(await resolve_awaitable(callback()))}
            except BaseException as error:
                if is_own_cancellation(error):
                    raise
                logger.exception("the contribution of %r to %r is left out", name, channel)
                contribution["error"] = type(error).__name__
        if scope.cancelled_caught:
            logger.error("the contribution of %r to %r is left out: it takes too long", name, channel)
        has_failed = "error" in contribution
        if has_failed or contribution["value"] is not None:
            contributions.append(contribution)
    return contributions


def _list_contributors(coordinator: Any) -> dict[str, list[tuple[str, Callable[[], Any]]]]:
    return {channel: list(coordinator.contributors(channel)) for channel in list(coordinator.channels)}


def _describe_session(session: ModuleSession) -> dict[str, Any]:
    coordinator = session.coordinator
    capabilities = coordinator.to_dict().get("capabilities", ())
    hooks = {}
    for event, registrations in sorted(session.hooks.list_registrations().items()):
        hooks[event] = [{"name": entry.name, "priority": entry.priority} for entry in registrations]
    channels = {}
    for channel, contributors in _list_contributors(coordinator).items():
        channels[channel] = [name for name, _ in contributors]
    return {
        "id": str(coordinator.session_id),
        "parent_id": coordinator.parent_id,
        "host": "native" if isinstance(coordinator, ModuleCoordinator) else "core",
        "modules": [_describe_module(state) for state in session.states],
        "problems": list(session.problems),
        "orchestrator": _get_type_name(coordinator.get("orchestrator")),
        "context": _get_type_name(coordinator.get("context")),
        **{point: _name_modules(coordinator.get(point)) for point in NAMED_POINTS},
        "hooks": hooks,
        "capabilities": sorted(map(str, capabilities)),
        "channels": channels,
        "stats": {"calls": session.stats.calls, "errors": session.stats.errors},
    }


def _describe_module(state: ModuleState) -> dict[str, Any]:
    spec = state.spec
    source = redact_userinfo(spec.source) if isinstance(spec.source, str) else _get_type_name(spec.source)
    description = {"module": spec.module, "kind": spec.section, "source": source}
    return {**description, "mounted": not state.problem, "problem": state.problem or state.warning or None}


def _name_modules(modules: Any) -> dict[str, str]:
    names = {}
    for key, module in dict(modules or {}).items():
        try:
            names[str(key)] = str(getattr(module, "name", None) or key)
        except BaseException as error:
            # The properties of third-party modules may raise anything.
            if is_own_cancellation(error):
                raise
            names[str(key)] = describe_error(error)
    return names


def _get_type_name(value: Any) -> str | None:
    return None if value is None else type(value).__name__
