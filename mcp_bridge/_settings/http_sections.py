"""The section `http` of the settings file. Its descriptions are the reference in docs/settings.md."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mcp_bridge._settings.sections import SettingsModel
from mcp_bridge._settings.values import (
    Delay,
    Duration,
    KeySetLocation,
    PrincipalName,
    Scope,
    TokenReference,
    Url,
    Whole,
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


def _parse_switch(value: Any) -> Any:
    return ({} if value else None) if isinstance(value, bool) else value


def _add_switch_schema(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [*schema["anyOf"], {"type": "boolean"}]


class HttpSettings(SettingsModel):
    """The HTTP endpoint: its address, and limits for its clients."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address to listen on.")
    port: Whole = Field(default=8808, ge=0, le=65535, description="The TCP port to listen on. 0 chooses a free port.")
    token_env: str | None = Field(
        default=None, min_length=1, description="The environment variable with the bearer token that clients must send."
    )
    tokens: dict[PrincipalName, TokenReference] = Field(
        default={},
        description="Bearer tokens of named [principals](security.md#principals): a mapping from each name to "
        "`env:NAME` (an environment variable) or `file:PATH`. Changes apply without a restart.",
    )
    jwt: JwtSettings | None = Field(default=None, description="Accept JWTs of an OAuth issuer as bearer tokens.")
    page: Annotated[PageSettings | None, BeforeValidator(_parse_switch)] = Field(
        default=None,
        description="Serve the [web page](page.md) at `/`: `true`, or a mapping with `operators`.",
        json_schema_extra=_add_switch_schema,
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
