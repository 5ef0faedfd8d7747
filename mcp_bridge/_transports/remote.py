"""The official client, connected to any MCP server: by URL, by command, or to an endpoint in this process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
from mcp import MCPError
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, PARSE_ERROR, ElicitResult, ErrorData

from mcp_bridge._contracts.errors import BridgeError
from mcp_bridge._upstream.messages import MAX_MESSAGE

T = TypeVar("T")
_LOGGERS = ("mcp.client.stdio", "mcp.client.streamable_http")
_UNREADABLE = ("Failed to parse JSON response", "Failed to parse SSE message")
"""How the errors begin that the SDK's client makes itself; what follows has a line for each type of message."""


class RemoteServerError(BridgeError):
    """Another MCP server cannot be reached, or has rejected a request."""


@asynccontextmanager
async def connect_url(url: str, token: str | None = None) -> AsyncIterator[Any]:
    """Yield the streams of a connection over Streamable HTTP; `token` is sent as a bearer token."""
    headers = {"Authorization": f"Bearer {token}"} if token else None
    timeout = httpx2.Timeout(30, read=300)  # that of the SDK: a server may hold a response stream open
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout) as http_client,
        streamable_http_client(url, http_client=http_client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams


def connect_command(argv: Sequence[str]) -> Any:
    """Return the streams of a server that this command starts, with the variables of this process."""
    server = StdioServerParameters(command=argv[0], args=list(argv[1:]), env=dict(os.environ))
    return stdio_client(server, errlog=sys.stderr)


def hide_tracebacks() -> None:
    """Log what a server sends instead of MCP messages in one line: tracebacks of the SDK do not help the user."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_remove_traceback)


def _remove_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


async def run_with_client(streams: Any, use: Callable[[Client], Awaitable[T]], **options: Any) -> T:
    """Connect a client with these options, and return what `use` returns. Raises BridgeError for every failure."""
    try:
        async with Client(streams, **options) as client:
            return await use(client)
    except Exception as error:
        cause = next(_list_causes(error))
        if isinstance(cause, BridgeError):
            raise cause from None
        if isinstance(cause, MCPError) and cause.code == PARSE_ERROR and cause.message.startswith(_UNREADABLE):
            problem = "the server sent a response that is not an MCP message"
            raise RemoteServerError(f"{problem}. Check the URL, or use `mcp-bridge doctor URL`.") from error
        is_response = isinstance(cause, MCPError) and cause.code != CONNECTION_CLOSED
        problem = "the server returned an error" if is_response else "the server cannot be reached"
        raise RemoteServerError(f"{problem}: {cause or type(cause).__name__}") from error


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _list_causes(each)
    else:
        yield error


def build_elicitation_options(ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the options of a client whose user answers elicitations. `ask` may raise ValueError for an invalid one."""

    async def elicit(context: Any, params: Any) -> Any:
        try:
            answer = await ask(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        except ValueError as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        return ElicitResult.model_validate(answer)

    return {"elicitation_callback": elicit}
