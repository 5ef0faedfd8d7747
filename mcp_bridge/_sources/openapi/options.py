"""The options of an OpenAPI document as a source in the settings file. Imported late, because it imports pydantic."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.http_client.addresses import parse_networks
from mcp_bridge._settings import SettingsModel
from mcp_bridge._sources.openapi.credentials import SecretSettings
from mcp_bridge._sources.openapi.servers import check_url

_OPERATION = re.compile(r"(!?[A-Za-z*?]+) +([/*].*)")


def _parse_secret(value: Any) -> Any:
    """Read text as the `value` of a credential."""
    return {"value": value} if isinstance(value, str) else value


def _add_text_schema(schema: dict[str, Any]) -> None:
    """Add text to the JSON Schema of `auth`, because pydantic does not know what `_parse_secret` accepts."""
    secret_schema = schema["additionalProperties"]
    schema["additionalProperties"] = {"anyOf": [secret_schema, {"type": "string"}]}


def _check_document(value: str) -> str:
    if "://" in value:
        raise ValueError("expected a file: nothing is fetched at a start. Run `mcp-bridge import openapi URL` once")
    return value


def _check_operation(value: str) -> str:
    match = _OPERATION.fullmatch(value)
    if match is None:
        raise ValueError("expected a method and a path, such as `GET /users/*` or `!DELETE *`")
    return f"{match[1].upper()} {match[2]}"


def _check_server(value: str) -> str:
    try:
        return check_url(value)
    except SourceError as error:
        raise ValueError(str(error)) from None


def _check_networks(value: tuple[str, ...]) -> tuple[str, ...]:
    parse_networks(value)
    return value


class OpenApiOptions(SettingsModel):
    """An HTTP API with an OpenAPI document: each operation is a tool."""

    document: Annotated[str, AfterValidator(_check_document)] = Field(
        min_length=1,
        description="The OpenAPI document, 3.0 or 3.1, as JSON or YAML. Relative paths start at the folder of the "
        "settings file. `mcp-bridge import openapi` fetches one from a URL.",
    )
    operations: tuple[Annotated[str, AfterValidator(_check_operation)], ...] = Field(
        default=(),
        description="Publish only operations whose method and path match one of these patterns (`*`, `?`), such as "
        "`GET /users/*`. A pattern that begins with `!` excludes operations. Default: all operations.",
    )
    server: Annotated[str, AfterValidator(_check_server)] | None = Field(
        default=None, description="The URL of the API, instead of the servers in the document."
    )
    auth: dict[str, Annotated[SecretSettings, BeforeValidator(_parse_secret)]] = Field(
        default={},
        description="Credentials by the names of the document's security schemes: a reference such as `env:NAME`, or a "
        "mapping with `username` and `password`, or with `client_id`, `client_secret`, `scopes` and `token_url`.",
        json_schema_extra=_add_text_schema,
    )
    headers: dict[str, str] = Field(
        default={},
        description="Headers that are sent with every request. A value can be a reference, such as `Bearer env:NAME`.",
    )
    allow_addresses: Annotated[tuple[str, ...], AfterValidator(_check_networks)] = Field(
        default=(),
        description="Addresses that may be used in addition to public ones, and without encryption: networks such as "
        "`10.0.0.0/8`, `loopback` or `private`.",
    )
