"""AmplifierSource: mounts the modules of a plan, publishes their tools, and has their hooks govern every call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio import to_thread

from mcp_bridge.amplifier.events import PROMPT_SUBMIT, TOOL_POST, TOOL_PRE
from mcp_bridge.amplifier.governance.approval import Asking
from mcp_bridge.amplifier.governance.hooks import Hooks
from mcp_bridge.amplifier.hosts import Host, chosen, session_on
from mcp_bridge.amplifier.plan import Plan
from mcp_bridge.amplifier.session import Session
from mcp_bridge.amplifier.source import approving
from mcp_bridge.amplifier.source.entries import Calls, entry_of
from mcp_bridge.amplifier.source.journal import SIZE
from mcp_bridge.amplifier.source.recording import Recording, others, without_secrets
from mcp_bridge.amplifier.source.resolver import Resolver
from mcp_bridge.amplifier.source.sessions import Keeping, Sessions
from mcp_bridge.amplifier.source.status import Status
from mcp_bridge.amplifier.source.working_dir import CAPABILITY, NOT_ASKED, ask_for_root, log_fallback
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.extension import Middleware, Publish
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.runtime.redaction import Redactor
from mcp_bridge.runtime.third_party import described, passes
from mcp_bridge.runtime.thread_pool import Soon, from_any_thread


class AmplifierSource:
    """The modules of a mount plan, mounted anew for each client, on `host` (see amplifier/hosts.py).

    `middleware` is what the hooks of these modules do around every call of the bridge, also of other sources. A hook
    that does not decide within `hook_timeout` seconds denies the call (None: it may take as long as it likes),
    and so does one that raises; once the tool has run, its answer is withheld. While a hook module of the plan is not
    mounted, every call is denied.
    `call_ids` are patterns of the names of tools that get the id of the call, whatever their schema says.
    `keeping` says which clients share a session, and for how long. What a module awaits before it is mounted and ready
    may take `mount_timeout` seconds (None: as long as it likes). `events` is the file of the events log, which starts
    anew beyond `events_size` bytes; it is written in a bridge alone, that has told what to `hide`. With `status`,
    clients can read of what is mounted.
    """

    def __init__(
        self,
        name: str,
        plan: Plan,
        *,
        config: Mapping[str, Any] | None = None,
        directory: Path | None = None,
        hook_timeout: float | None = 30.0,
        call_ids: Sequence[str] = (),
        keeping: Keeping | None = None,
        resolver: Resolver | None = None,
        host: Literal["auto"] | Host = "auto",
        mount_timeout: float | None = 30.0,
        events: Path | None = None,
        events_size: int = SIZE,
        status: bool = True,
    ) -> None:
        self.name = name
        self._call_ids = tuple(call_ids)
        self._config = dict(config or {})
        self._directory = directory or Path.cwd()
        self._working_dir = self._directory
        self._resolver = resolver or Resolver(self._directory)
        self._hook_timeout = hook_timeout
        self._plan = plan
        self._wanted = host
        self.host: Host = "native"
        self._changed = anyio.Event()
        self._soon: Soon | None = None
        self._calls: dict[str, Calls] = {}
        self.sessions = Sessions(plan, self._session, keeping or Keeping())
        self.asking = Asking()
        self.middleware: tuple[Middleware, ...] = (Hooks(self.sessions.hooked, self.asking, self._count),)
        self._mount_timeout = mount_timeout
        self._redactor = Redactor()
        self._recording = Recording(events, self._redactor, events_size) if events is not None else None
        self._status = Status(name, self.sessions) if status else None
        self._updated: Callable[[str], None] | None = None

    def work_in(self, folder: Path, *, roots: bool = False) -> None:
        """Set the folder that modules find as the capability `session.working_dir`; before that it is `directory`.

        With `roots` it is the fallback for clients that list no roots, and for those that share a session.
        """
        self._working_dir = folder
        if roots and self.sessions.keeping.shared:
            log_fallback(NOT_ASKED)
        elif roots:
            self.sessions.ask_root = ask_for_root

    def hide(self, secrets: Iterable[str]) -> None:
        """Show these to nobody from now on: neither in the events log, nor in what session:start tells of the plan."""
        self._redactor.hide(secrets)

    def set_update_listener(self, updated: Callable[[str], None]) -> None:
        """Call `updated` with the URI of each resource that changes, because the source belongs to a bridge."""
        self._updated = updated

    async def run(self, publish: Publish) -> None:
        """Keep the sessions until cancelled. Raises SourceError when a plan mounts nothing, or cannot be hosted."""
        self._soon = from_any_thread()
        try:
            await self._run(publish)
        finally:
            self.sessions.stop()
            if self._recording is not None:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self._recording.end)

    async def _run(self, publish: Publish) -> None:
        self.host = await chosen(self._wanted, self._plan, self._resolver, [self._directory])
        async with anyio.create_task_group() as tasks:
            try:
                first = await self.sessions.begin(tasks)
                failed = _mounted_nothing(first)
                published: Offer | None = None
                while not failed:
                    self._changed = anyio.Event()
                    offer = self._offer(first)
                    if offer != published:  # each publishing tells of the problems again
                        publish(offer)
                        published = offer
                    if self._status is not None and self._updated is not None:
                        self._updated(self._status.uri)
                    await self._changed.wait()
                tasks.cancel_scope.cancel()
            finally:
                self.sessions.stop()
        raise SourceError("\n".join(failed))

    def _session(self, folder: Path | None) -> Session:
        """A session that is not begun; `folder` is what its client wants it to work in."""
        config, folders = deepcopy(self._config), [self._directory]
        hooks: Any = {"fail_closed": (TOOL_PRE, TOOL_POST, PROMPT_SUBMIT), "timeout": self._hook_timeout}
        made = session_on(self.host, config, self._resolver, folders, self._change, **hooks)
        made.coordinator.register_capability(CAPABILITY, str(folder or self._working_dir))
        approving.register(made.coordinator, self.asking)
        made.loader.patience, made.shown, made.changed = self._mount_timeout, self._shown, self._change
        if self._recording is not None and self._updated is not None:
            self._recording.begin(made.coordinator)
            made.ready = self._recording.ready
        return made

    def _shown(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The plan without secrets; nothing of it where nobody has told what is one, as in a worker."""
        return self._redactor.value(without_secrets(config)) if self._updated is not None else {}

    def _count(self, ctx: CallContext, result: ToolResult) -> None:
        session = self.sessions.here(ctx)
        if session is not None:
            session.stats.count(failed=bool(result.is_error))

    def _offer(self, session: Session) -> Offer:
        """What is mounted now; of two tools that give themselves one name, the first."""
        problems = list(session.problems)
        found: dict[str, tuple[str, ToolEntry]] = {}
        for key, tool in session.tools().items():
            try:
                calls = self._calls_of(key, tool)
                entry = entry_of(calls)
                calls.wants_id = calls.wants_id or any(fnmatchcase(entry.name, one) for one in self._call_ids)
            except BaseException as error:  # a stranger's property
                if passes(error):
                    raise
                problems.append(f"tool '{key}' cannot be read: {described(error)}")
                continue
            first, _ = found.setdefault(entry.name, (key, entry))
            if first != key:
                problems.append(
                    f"the tools mounted as '{first}' and '{key}' are both named '{entry.name}'. Rename one, or leave "
                    "one out; the first is published"
                )
        resources = self._status.entries if self._status is not None else ()
        return Offer(tools=[entry for _, entry in found.values()], resources=resources, problems=problems)

    def _calls_of(self, key: str, tool: Any) -> Calls:
        """A tool's calls, the same ones as long as it is mounted: they remember how it answers."""
        known = self._calls.get(key)
        if known is None or known.tool is not tool:
            known = self._calls[key] = Calls(key, tool, self.sessions)
        return known

    def _change(self) -> None:
        """Publish again, soon: whoever mounts something may be in a thread of its own."""
        if self._soon is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._soon(self._changed.set)


def _mounted_nothing(session: Session) -> list[str]:
    """Why, where a session is of no use at all."""
    return session.problems if not session.tools() and not others(session.hooks.list_handlers()) else []
