"""The sections of the settings file beside its sources; the descriptions are the settings reference."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mcp_bridge.settings.values import Duration, Keys, Size, Whole

ClientName = Literal[
    "claude-code", "claude-desktop", "cline", "codex", "continue", "copilot-cli", "cursor", "gemini-cli", "goose",
    "lm-studio", "opencode", "vscode", "windsurf", "zed",
]  # fmt: skip


class Frame(BaseModel):
    """What every model here shares: frozen, unknown keys refused, no values in pydantic's own texts."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ToolLimitSettings(Frame):
    """What one tool may take, where that is not what all may."""

    timeout: Duration | None = Field(default=None, description="How long one call of it may take.")
    concurrency: Whole | None = Field(default=None, ge=1, le=100_000, description="How many calls of it run at once.")


class LimitSettings(Frame):
    """How much one call, and all of them, may take."""

    timeout: Duration = Field(
        default=60.0, description="How long one call may take, in seconds or as text such as `90s` or `5m`."
    )
    threads: Whole = Field(
        default=32,
        ge=1,
        le=1024,
        description="The number of threads for synchronous tools, so many of them run at once.",
    )
    concurrency: Whole = Field(default=64, ge=1, le=100_000, description="How many calls run at once.")
    queue: Whole = Field(
        default=1024, ge=0, le=1_000_000, description="How many calls may wait for that; more are refused."
    )
    arguments: Size = Field(
        default=4 * 1024 * 1024, description="The most text in the arguments of one call, or text such as `1 MiB`."
    )
    depth: Whole = Field(
        default=64, ge=1, le=128, description="The most levels of lists and objects in the arguments of one call."
    )
    nodes: Whole = Field(
        default=100_000, ge=1, le=10_000_000, description="The most values in the arguments of one call."
    )
    result: Size = Field(
        default=1024 * 1024, description="The most text in one answer of a tool; more is cut, and kept to be read."
    )
    content: Size = Field(
        default=16 * 1024 * 1024,
        description="The most of all but text in one answer of a tool, such as images; more is left out, and said.",
    )
    drain: Duration = Field(default=10.0, description="How long calls in flight have to be answered once serving ends.")
    tools: dict[str, ToolLimitSettings] = Field(
        default={}, description="Limits of single tools, by patterns (`*`, `?`) of their names; the first that fits."
    )
    page: Whole = Field(
        default=250,
        ge=1,
        le=1000,
        description="The number of entries on one page of a list of tools, resources or prompts.",
    )


class HttpSettings(Frame):
    """Where and for whom the HTTP endpoint listens."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address to listen on.")
    port: Whole = Field(default=8808, ge=0, le=65535, description="The TCP port to listen on; 0 takes a free one.")
    token_env: str | None = Field(
        default=None, min_length=1, description="The environment variable that holds the bearer token of clients."
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Values of the Host header to accept besides `host`."
    )
    allowed_origins: tuple[str, ...] = Field(default=(), description="Values of the Origin header to accept.")
    body: Size = Field(
        default=4 * 1024 * 1024, description="The largest request body, in bytes or as text such as `1 MiB`."
    )
    sessions: Whole = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="The most handshake-era sessions, and the most legacy SSE streams, at once. One session more ends "
        "the one that was idle longest; where none is idle it gets 503.",
    )
    idle: Duration = Field(
        default=1800.0, description="How long a handshake-era session may be without a request before it ends."
    )
    receive_timeout: Duration = Field(
        default=10.0, description="How long a client may take to send a request, from its first byte to its last."
    )
    send_timeout: Duration = Field(
        default=60.0, description="How long a client may take nothing of an answer before it is cut off."
    )
    resumable: bool = Field(
        default=True, description="Let handshake-era clients resume a stream that broke (`Last-Event-ID`)."
    )
    events: Whole = Field(
        default=256, ge=1, le=100_000, description="The most messages kept for resuming in one session."
    )
    retry: Duration = Field(
        default=1.0, le=3600, description="How long clients are told to wait before they resume a stream."
    )


class StateSettings(Frame):
    """What outlives a call: where it is kept, and for how long."""

    store: str = Field(
        default="memory",
        min_length=1,
        description="Where it is kept: `memory`, `sqlite` (a file), or your own as `package.module:Name`.",
    )
    path: str | None = Field(
        default=None, min_length=1, description="The file of `sqlite`; none means one in this user's folder for state."
    )
    keys: Keys = Field(
        default=(),
        description="Secrets of 32 or more bytes, as a list or parted by commas, that seal what clients carry. The "
        "first seals, all open; instances that share work share them. None means one made for this process.",
    )
    ttl: Duration = Field(default=600.0, description="How long a question of a call waits for its answer.")
    parked: Whole = Field(
        default=256, ge=1, le=1_000_000, description="The most calls that may wait for answers at once."
    )


class ApprovalSettings(Frame):
    """How people decide about calls that hooks ask about."""

    options: tuple[str, ...] = Field(
        default=(
            "Allow once",
            "Allow for this session (same arguments)",
            "Allow always (same arguments)",
            "Deny",
        ),
        min_length=1,
        description="What a person can choose where a hook does not say.",
    )
    remember: bool = Field(default=True, description="Remember what is allowed for a session, or always.")
    store: str | None = Field(
        default=None,
        min_length=1,
        description="Where that is kept, as in `state.store`; none means there, or in `sqlite` where that is `memory`.",
    )
    path: str | None = Field(
        default=None, min_length=1, description="The file of `sqlite`; none means one in this user's folder for state."
    )
    expires: Duration = Field(
        default=30 * 86400.0, description="How long something stays allowed always; for a session at most a day."
    )
    local: bool = Field(
        default=True, description="Ask whoever runs `mcp-bridge approvals` where nobody at the client can be asked."
    )
    sockets: str | None = Field(
        default=None,
        min_length=1,
        description="The folder where running bridges have their sockets for that; none means one of this user's.",
    )
    wait: Duration | None = Field(
        default=None, description="How long a question waits for somebody to run that; none means not at all."
    )
    audit: str | None = Field(
        default=None, min_length=1, description="The file that gets a line of JSON for each decision."
    )


class DialectSettings(Frame):
    """What is rewritten, for clients that would not take it otherwise; calls are checked as before."""

    clients: tuple[ClientName, ...] = Field(default=(), description="Clients: what each of them needs is rewritten.")
    inline_references: bool | None = Field(
        default=None, description="Replace `$ref` in schemas by what it leads to. None means: if a client needs it."
    )
    flatten_unions: bool | None = Field(
        default=None,
        description="Make one object of `anyOf`, `oneOf` and `allOf` at the top of a schema; the tool's description "
        "says which arguments go together. None means: if a client needs it.",
    )
    write_properties: bool | None = Field(
        default=None,
        description="Write `properties: {}` where an object names none. None means: if a client needs it.",
    )
    parse_strings: bool | None = Field(
        default=None,
        description="Parse arguments that arrive as JSON in a string, where the schema wants an object, a list, a "
        "number or a truth value. None means: if any client is named.",
    )
