"""The options of an MCP server as a source in the settings file. Imported late, because it imports pydantic."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from mcp_bridge._runtime.urls import split_url
from mcp_bridge._settings import Duration, OptionalSandbox, SessionLimit, SettingsModel
from mcp_bridge._sources.upstream.credentials import ReadValues, Values, resolve_later
from mcp_bridge._upstream.connection import UpstreamAddress
from mcp_bridge._upstream.trust.guard import ChangePolicy

if TYPE_CHECKING:
    from mcp_bridge._upstream.oauth import BearerAuth

SESSIONS = 32
"""The default for the maximum number of clients that have their own connection at once."""
_POLICY_OPTIONS = {"start_timeout", "changes", "sessions"}
"""The options that change neither which server is used nor what it is sent."""


class UpstreamOptions(SettingsModel):
    """An upstream: an MCP server behind this one, started with a command or at a URL."""

    command: str | None = Field(default=None, min_length=1, description="The program that starts the server.")
    args: tuple[str, ...] = Field(default=(), description="Its arguments.")
    env: dict[str, str] = Field(
        default={},
        description="Its environment variables, in addition to PATH, HOME, LANG and similar ones. A value can be a "
        "reference: `env:NAME`, `file:PATH` or `keyring:SERVICE/NAME`.",
    )
    cwd: str | None = Field(
        default=None, min_length=1, description="Its working directory. Default: the folder of the settings file."
    )
    url: str | None = Field(default=None, min_length=1, description="The URL of a server over HTTP.")
    transport: Literal["http", "sse"] = Field(
        default="http", description="The transport of `url`: Streamable HTTP, or the older one with `sse`."
    )
    protocol: Literal["auto", "handshake", "stateless"] = Field(
        default="auto",
        description="The protocol versions to use with a server that speaks several: `handshake`, those up to "
        "2025-11-25, or `stateless`, 2026-07-28. `auto`: at a `url` those of each client, so that every tool can ask "
        "the user as if its client were connected directly; with a `command` `handshake`, in which most tools ask.",
    )
    headers: dict[str, str] = Field(
        default={},
        description="Headers that are sent with every request. A value can be a reference, such as `Bearer env:NAME`.",
    )
    auth: Literal["oauth"] | None = Field(
        default=None,
        description="`oauth`: send the token that `mcp-bridge login` has stored, and refresh it when it expires.",
    )
    sandbox: OptionalSandbox = Field(
        default=None,
        description="`true`: `command` can read only the system, its program and the paths in `args`, and has no "
        "network. A mapping allows more.",
    )
    start_timeout: Duration = Field(default=30.0, description="How long connecting and listing everything may take.")
    sessions: Literal["client", "shared"] | SessionLimit = Field(
        default="shared",
        description="`client`: each client has its own connection, and its own process of a `command`. Clients without "
        "a session share the first connection. `shared`: all clients do. A number is the maximum for `client`, which "
        f"is {SESSIONS} by default. A further connection ends the one that has been idle the longest; if none is idle, "
        "the call is rejected. If there are several clients, none has more than three quarters of them.",
    )
    changes: ChangePolicy = Field(
        default="quarantine",
        description="What happens to a tool whose definition differs from the accepted one. `quarantine`: it is not "
        "published until `mcp-bridge trust` accepts it. `quarantine_all`: the same, also for tools that a known server "
        "did not have before. `warn`: the log reports it. `ignore`: nothing is recorded or compared.",
    )

    @model_validator(mode="after")
    def _check_one_of_both(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either command or url")
        if self.url is not None and not split_url(self.url).hostname:
            raise ValueError("url is not valid. Write it as https://HOST/mcp")
        if self.auth is not None and self.url is None:
            raise ValueError("auth requires url: a server that the bridge starts gets its credentials from env")
        if self.sandbox is not None and self.command is None:
            raise ValueError("sandbox requires command: a server at a URL runs elsewhere")
        return self

    def compute_digest(self) -> str:
        """Return a digest of the options that select the server and its use."""
        return hashlib.sha256(self.model_dump_json(exclude=_POLICY_OPTIONS).encode()).hexdigest()

    def build_address(self, name: str, directory: Path) -> UpstreamAddress:
        """Return the address of the server `name`: its URL, or the command that starts it in `directory`."""
        if self.url is not None:
            auth = self._build_auth(name, self.url)
            return resolve_later("headers", self.headers, self._make_address_builder(self.url, auth), auth)
        from mcp_bridge._upstream.child import LaunchCommand

        assert self.command is not None
        if self.cwd is not None:
            directory = directory / Path(self.cwd).expanduser()
        build = partial(
            LaunchCommand,
            command=self.command,
            args=self.args,
            directory=directory,
            sandbox=self.sandbox.to_options(directory) if self.sandbox is not None else None,
            name=name,
        )
        return resolve_later("env", self.env, lambda env, read_env: build(env=env))

    def _build_auth(self, name: str, url: str) -> BearerAuth | None:
        if self.auth is None:
            return None
        from mcp_bridge._upstream.oauth import BearerAuth

        return BearerAuth(name, url, self.transport)

    def _make_address_builder(
        self, url: str, auth: BearerAuth | None
    ) -> Callable[[Values, ReadValues | None], UpstreamAddress]:
        if self.transport == "sse":
            from mcp_bridge._upstream.legacy_sse import SseUrl

            return lambda headers, read_values: SseUrl(url=url, headers=headers, read_headers=read_values, auth=auth)
        from mcp_bridge._upstream.remote import ServerUrl

        return lambda headers, read_values: ServerUrl(url=url, headers=headers, read_headers=read_values, auth=auth)
