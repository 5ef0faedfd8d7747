"""The sections of the settings file except its sources. Their descriptions are in docs/settings-reference.md."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from mcp_bridge._settings.values import (
    Delay,
    Duration,
    Keys,
    KeySetLocation,
    PrincipalName,
    Scope,
    Size,
    TokenReference,
    Url,
    Whole,
    add_alternatives,
    replace_switch,
)

if TYPE_CHECKING:
    from mcp_bridge._runtime.sandbox import SandboxOptions

SandboxName = Literal["auto", "bubblewrap", "landlock"]
_SANDBOX_FORMS = "bubblewrap, landlock, auto, true, or a mapping with type, network, allow_addresses, read and write"
_REMEMBERED = 30 * 86400.0
"""How long the answer `always` to a question for approval applies by default, in seconds."""
ClientName = Literal[
    "amp", "antigravity", "claude-code", "claude-desktop", "cline", "codex", "continue", "copilot-cli", "crush",
    "cursor", "gemini-cli", "goose", "junie", "kilo-code", "kiro", "librechat", "lm-studio", "opencode", "qwen-code",
    "roo-code", "visual-studio", "vscode", "warp", "windsurf", "zed",
]  # fmt: skip


class SettingsModel(BaseModel):
    """The base of all models: frozen, rejects unknown keys, and keeps values out of pydantic's messages."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _check_hosts(network: bool | tuple[str, ...]) -> bool | tuple[str, ...]:
    if isinstance(network, tuple):
        from mcp_bridge._runtime.egress.hosts import parse_rule

        for host in network:
            parse_rule(host)
    return network


def _check_networks(networks: tuple[str, ...]) -> tuple[str, ...]:
    from mcp_bridge._runtime.http_client.addresses import parse_networks

    parse_networks(networks)
    return networks


class SandboxSettings(SettingsModel):
    """A sandbox, and what it allows besides the system and the files that the program needs."""

    type: SandboxName = Field(
        default="auto",
        description="`bubblewrap`, `landlock`, or `auto`: bubblewrap if it is installed and works, else Landlock.",
    )
    network: Annotated[bool | tuple[str, ...], AfterValidator(_check_hosts)] = Field(
        default=False,
        description="Allow the network, or only these [hosts](isolation.md#network-by-host-name), such as "
        "`api.github.com`, `*.example.com` or `db.example.com:5432`.",
    )
    allow_addresses: Annotated[tuple[str, ...], AfterValidator(_check_networks)] = Field(
        default=(),
        description="Addresses that the hosts in `network` may have in addition to public ones: networks such as "
        "`10.0.0.0/8`, `loopback` or `private`.",
    )
    read: tuple[str, ...] = Field(default=(), description="More paths that can be read.")
    write: tuple[str, ...] = Field(default=(), description="Paths that can be written.")

    @model_validator(mode="after")
    def _check_network(self) -> Self:
        has_hosts = isinstance(self.network, tuple)
        if self.allow_addresses and not has_hosts:
            raise ValueError("allow_addresses requires a list of hosts in network")
        if has_hosts and self.type == "landlock":
            raise ValueError("Landlock cannot limit the network to a list of hosts. Use bubblewrap")
        return self

    def to_options(self, directory: Path, files: tuple[str, ...] = (), listed: tuple[str, ...] = ()) -> SandboxOptions:
        """Return the options of the sandbox of a program with these files. Relative paths start at `directory`."""
        from mcp_bridge._runtime.sandbox import SandboxOptions, find_enclosing_folder

        folder = directory.resolve()
        # By absolute path: the path without links.
        read_paths, write_paths = (
            {os.path.normpath(folder / path): str((folder / path).resolve()) for path in paths}
            for paths in (self.read, self.write)
        )
        writable = {*write_paths, *write_paths.values()}
        paths = {*read_paths, *read_paths.values(), *writable}
        read = tuple(target for target in read_paths.values() if target not in writable)
        write: tuple[str, ...] = ()
        for path, target in write_paths.items():
            # A path in a writable folder is writable anyway, and a tool may have replaced it by a link to any other.
            others = paths - {path, target}
            enclosing_folders = {find_enclosing_folder(path, others), find_enclosing_folder(target, others)}
            if not enclosing_folders & writable:
                write = (*write, target)
        # The folder of the settings stays read-only within a writable folder, unless the settings name it.
        if any(str(parent) in write for parent in folder.parents) and str(folder) not in writable:
            read = (*read, str(folder))
        return SandboxOptions(
            type=self.type,
            network=self.network is True,
            hosts=self.network if isinstance(self.network, tuple) else (),
            allow_addresses=self.allow_addresses,
            files=files,
            listed=listed,
            read=read,
            write=write,
        )


def _parse_sandbox(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    # An empty value must not mean a process without a sandbox.
    if value is None:
        raise ValueError(f"expected {_SANDBOX_FORMS}, or false")
    if isinstance(value, str):
        if value not in get_args(SandboxName):
            raise ValueError(f"expected {_SANDBOX_FORMS}, or false")
        return {"type": value}
    return value


OptionalSandbox = Annotated[
    SandboxSettings | None,
    BeforeValidator(_parse_sandbox),
    Field(json_schema_extra=add_alternatives({"type": "boolean"}, {"enum": list(get_args(SandboxName))})),
]


class ToolLimitSettings(SettingsModel):
    """Limits for one tool."""

    timeout: Duration | None = Field(default=None, description="How long a call may take.")
    concurrency: Whole | None = Field(default=None, ge=1, le=100_000, description="How many calls may run at once.")


class LimitSettings(SettingsModel):
    """Limits for each call, and for all calls together."""

    timeout: Duration = Field(
        default=60.0, description="How long a call may take, in seconds or as text such as `90s` or `5m`."
    )
    threads: Whole = Field(
        default=64,
        ge=1,
        le=1024,
        description="The number of threads for synchronous tools, which is how many of them can run at once.",
    )
    concurrency: Whole = Field(
        default=1024,
        ge=1,
        le=100_000,
        description="How many calls may run at once. The calls of one tool, and over HTTP those of one client, can "
        "use at most three quarters of these places, and of the threads. A limit below 4 is not divided.",
    )
    arguments: Size = Field(
        default=4 * 1024 * 1024,
        description="The maximum size of the text in the arguments of a call, and over HTTP of a whole request, in "
        "bytes or as text such as `1 MiB`.",
    )
    result: Size = Field(
        default=768 * 1024,
        description="The maximum size of the text in a result. Longer text is truncated, and clients can read the "
        "rest as a resource.",
    )
    drain: Duration = Field(default=10.0, description="How long running calls may take to finish at shutdown.")
    tools: dict[str, ToolLimitSettings] = Field(
        default={},
        description="Limits for single tools, by patterns (`*`, `?`) of their names. The first matching pattern "
        "applies.",
    )


class ToolSearchSettings(SettingsModel):
    """Which tools clients see if there are many. They find and call the others with `search_tools` and `call_tool`."""

    above: Whole = Field(
        default=50, ge=0, description="The maximum number of tools that are all listed. With more, clients search."
    )
    keep: tuple[str, ...] = Field(
        default=(),
        description="Patterns (`*`, `?`) of the published names of tools that are always listed. Default: none.",
    )


class StateSettings(SettingsModel):
    """State between calls: where and how long it is kept."""

    store: str = Field(
        default="memory",
        min_length=1,
        description="Where state is kept: in `memory`; in a file, as `sqlite:PATH`, or `sqlite` for one in the state "
        "folder of the user; in Redis at `redis://`, `rediss://` or `unix://`, which also has the tasks and the counts "
        "of rate limits, so that several servers share them; or in your own class, as `package.module:Name`.",
    )
    keys: Keys = Field(
        default=(),
        description="Secrets of 32 or more bytes, as a list or separated by commas. They seal the state that passes "
        "through clients: the first key seals, and every key opens. Instances that share calls need the same keys. By "
        "default, each start generates a key.",
    )
    ttl: Duration = Field(
        default=600.0, description="How long a call waits for the answer to a question, and its state is kept."
    )


class ToolTaskSettings(SettingsModel):
    """How the calls to a tool become tasks."""

    mode: Literal["forbidden", "optional", "required"] | None = Field(
        default=None,
        description="`optional`: calls become tasks if the client supports tasks. `required`: only such clients can "
        "call the tool. `forbidden`: calls never become tasks. Default: what the tool declares, else `optional`.",
    )
    after: Delay | None = Field(
        default=None,
        description="As `tasks.after`, for this tool. Default: `tasks.after`, or 0 if tasks are `required`.",
    )
    timeout: Duration | None = Field(default=None, description="As `tasks.timeout`, for this tool.")


class TaskSettings(SettingsModel):
    """Calls that continue as tasks. Clients fetch their results later."""

    after: Delay = Field(
        default=10.0,
        description="How long a call may take before it continues as a task; 0 makes each call a task at once.",
    )
    timeout: Duration = Field(
        default=3600.0,
        description="How long each attempt of a task may run, without questions. It replaces the limits for calls.",
    )
    ttl: Duration = Field(default=86400.0, description="How long a task and its result are kept, from its creation.")
    most: Whole = Field(
        default=1024,
        ge=1,
        le=1_000_000,
        description="The maximum number of tasks that are kept. Over HTTP, one client can have at most three quarters.",
    )
    concurrency: Whole = Field(
        default=10, ge=1, le=10_000, description="Redis: how many tasks a server or worker runs at once."
    )
    workers_only: bool = Field(
        default=False, description="Redis: whether only `mcp-bridge worker` runs tasks, not `mcp-bridge serve`."
    )
    lease: Duration = Field(
        default=30.0,
        ge=1,
        description="Redis: if the process of a task has ended, or lost its connection, the task starts again after "
        "this time. It fails after three starts.",
    )
    tools: dict[str, ToolTaskSettings] = Field(
        default={},
        description="Options for single tools, by patterns (`*`, `?`) of their names. The first matching pattern "
        "applies. They take precedence over what tools declare.",
    )


class ApprovalSettings(SettingsModel):
    """Approvals of calls by users, and how long they are remembered."""

    remember: Annotated[Duration | None, BeforeValidator(replace_switch(_REMEMBERED))] = Field(
        default=_REMEMBERED,
        description="How long `always` applies; `false` remembers nothing. Decisions are in `state.store`, or in "
        "`sqlite` if that is `memory`. One for a session applies for at most a day.",
        json_schema_extra=add_alternatives({"type": "boolean"}),
    )
    terminal: Annotated[Delay | None, BeforeValidator(replace_switch(0.0))] = Field(
        default=0.0,
        description="Whether the user who runs `mcp-bridge approvals` is asked if the client cannot ask: `true`, "
        "`false`, or how long a question waits until someone runs it. By default, it does not wait.",
        json_schema_extra=add_alternatives({"type": "boolean"}),
    )
    truncate: bool = Field(
        default=False,
        description="Let users approve calls of which a question can show only a part. By default, a call with more "
        "than 10,000 characters of arguments is denied.",
    )
    audit: str | None = Field(
        default=None,
        min_length=1,
        description="The audit log: a file with one line of JSON for each decision. By default, there is none.",
    )


class SharedSettings(SettingsModel):
    """The server of `serve --shared`, which many clients use."""

    idle: Duration = Field(default=300.0, description="How long the server runs without a client before it exits.")


class DialectSettings(SettingsModel):
    """Changes to tool definitions for clients that would reject them. Calls are validated as before."""

    clients: tuple[ClientName, ...] = Field(
        default=(), description="The clients for which tools are rewritten, each with what it needs."
    )
    omit_empty: bool = Field(
        default=False,
        description='Leave out an optional argument that is null or "" where its schema does not accept that, so that '
        "the tool uses its default.",
    )


class JwtSettings(SettingsModel):
    """JWTs of an OAuth issuer as bearer tokens. Requires the extra `jwt`."""

    issuer: str = Field(min_length=1, description="The issuer of the tokens, exactly as in the claim `iss`.")
    audience: str = Field(
        min_length=1, description="The value of the claim `aud` for this server, usually the URL of its MCP endpoint."
    )
    jwks: KeySetLocation = Field(
        description="The issuer's public keys (a JSON Web Key Set): a file, or an `https` URL. Read when the first "
        "token arrives, again after 10 minutes (a file: 5 seconds), and when a token has an unknown key id."
    )
    scopes: tuple[Scope, ...] = Field(
        default=(), description="The scopes that every token must have. Other tokens are rejected with 403."
    )
    resource: Url | None = Field(
        default=None,
        description="The URL of the MCP endpoint that clients use, for the protected-resource metadata. Default: "
        "`audience` if it is a URL, else the URL of the request.",
    )


class PageSettings(SettingsModel):
    """The web page: who may see everything and act for others."""

    operators: tuple[PrincipalName, ...] = Field(
        default=(),
        description="The principals that see and do everything. Other principals see only their own calls and "
        "questions. Without `http.tokens` and `http.jwt`, every user with the token of `token_env` is an operator.",
    )
    history: str | None = Field(
        default=None,
        min_length=1,
        description="A SQLite file for the latest 1,000 calls, which the page then shows after a restart. Relative to "
        "the folder of the settings.",
    )


class HttpSettings(SettingsModel):
    """The HTTP endpoint: its address, and limits for its clients."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address to listen on.")
    port: Whole = Field(default=8808, ge=0, le=65535, description="The TCP port to listen on. 0 chooses a free port.")
    token_env: str | None = Field(
        default=None, min_length=1, description="The environment variable with the bearer token that clients must send."
    )
    tokens: dict[PrincipalName, TokenReference] = Field(
        default={},
        description="Bearer tokens of named [principals](principals.md): a mapping from each name to "
        "`env:NAME` (an environment variable) or `file:PATH`. Changes apply without a restart.",
    )
    jwt: JwtSettings | None = Field(default=None, description="Accept JWTs of an OAuth issuer as bearer tokens.")
    page: Annotated[PageSettings | None, BeforeValidator(replace_switch({}))] = Field(
        default=None,
        description="Serve the [web page](page.md) at `/`: `true`, or a mapping with `operators` and `history`.",
        json_schema_extra=add_alternatives({"type": "boolean"}),
    )
    metrics: bool = Field(
        default=False,
        description="Serve [metrics](metrics.md) for Prometheus at `/metrics`. Requires the extra `prometheus`.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Accepted values of the Host header, in addition to `host`."
    )
    allowed_origins: tuple[str, ...] = Field(default=(), description="Accepted values of the Origin header.")
    sessions: Whole = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="The maximum number of handshake-era sessions, and of legacy SSE streams. A further session closes "
        "the one that has been idle the longest; if none is idle, the client gets 503.",
    )
    idle: Duration = Field(
        default=1800.0, description="How long a handshake-era session may be idle before the server closes it."
    )
    client_timeout: Duration | None = Field(
        default=None,
        description="How long a client may take to send a request, and how long it may stop reading a response, before "
        "the server closes the connection. Default: 10 seconds for a request, and 60 seconds for a response.",
    )
    shutdown_delay: Delay = Field(
        default=0.0,
        description="How long the server still accepts requests after SIGTERM, while `/health` answers 503, so that a "
        "proxy can stop sending requests first.",
    )
    workers: Whole = Field(
        default=1,
        ge=1,
        le=64,
        description="The number of [processes](scale.md#all-cores-of-one-machine) that serve the address. Windows "
        "supports only 1.",
    )
