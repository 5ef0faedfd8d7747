"""A raw JSON-RPC conversation with a server over Streamable HTTP, which reports the cause of every failure."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlsplit

from mcp_bridge._cli.doctor.conversation import ServerFault, make_fault, read_result, report_waiting
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE, STATELESS

MAX_BODY = 1 << 26
"""The maximum number of bytes that are read of a response."""
_ADVICE = {
    401: "Pass a token: --token-env NAME sends the value of that environment variable as a bearer token.",
    403: "The server does not accept this token, or this host.",
    404: "Check the path of the URL: it often ends in /mcp.",
    405: "Check the path of the URL: it often ends in /mcp.",
}


class HttpConversation:
    """The messages exchanged with the server at a URL; `timeout` is in seconds for each response.

    `first_response` is the time until the first response, in seconds.
    """

    stderr = ""

    def __init__(self, url: str, timeout: float, token: str | None = None) -> None:
        self._url = url
        self._timeout = timeout
        self._ids = itertools.count(1)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._opener = urllib.request.build_opener(_OwnRedirects)
        self.first_response: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session, if the server has opened one."""
        if "Mcp-Session-Id" in self._headers:
            request = urllib.request.Request(self._url, headers=self._headers, method="DELETE")  # noqa: S310
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._opener.open(request, timeout=self._timeout).close()

    def notify(self, method: str) -> None:
        with contextlib.suppress(ServerFault):  # the next request shows the problem
            for _ in self._exchange({"jsonrpc": "2.0", "method": method}):
                break

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its result. Raises ServerFault."""
        number, began = next(self._ids), time.monotonic()
        with report_waiting(method, self._timeout):
            for message in self._exchange({"jsonrpc": "2.0", "id": number, "method": method, "params": params}):
                if isinstance(message, dict) and str(message.get("id")) == str(number) and "method" not in message:
                    if self.first_response is None:
                        self.first_response = time.monotonic() - began
                    return read_result(method, message)
        raise ServerFault(
            f"the response to {method} is missing", "The server closed the connection before it responded."
        )

    def _exchange(self, message: dict[str, Any]) -> Iterator[Any]:
        """Send a message and yield those of the response. Raises ServerFault."""
        method, params = message["method"], message.get("params", {})
        headers = {**self._headers, "MCP-Protocol-Version": HANDSHAKE}
        if "_meta" in params:
            headers |= {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method}
            if (name := params.get("name", params.get("uri"))) is not None:
                headers["Mcp-Name"] = str(name)
        elif method == "initialize":
            del headers["MCP-Protocol-Version"]
        data = json.dumps(message).encode()
        request = urllib.request.Request(self._url, data, headers)  # noqa: S310 - the user's own URL, http or https
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                if session := response.headers.get("Mcp-Session-Id"):
                    self._headers["Mcp-Session-Id"] = session
                yield from _read_messages(response, time.monotonic() + self._timeout)
        except urllib.error.HTTPError as error:
            raise _read_fault(error, method) from error
        except TimeoutError as error:
            raise self._make_silence(method) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError):
                raise self._make_silence(method) from error
            advice = "Check the URL, and that the server is running."
            raise ServerFault(f"cannot use {self._url}: {reason}", advice, kind="not started") from error

    def _make_silence(self, method: str) -> ServerFault:
        problem = f"no response to {method} within {self._timeout:g} seconds"
        return ServerFault(problem, "The server may be busy, or may not be an MCP server.", kind="silent")


class _OwnRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects on the same server only, because others could send the token to another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if code not in (307, 308) or urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            return None
        return urllib.request.Request(newurl, req.data, req.headers)  # noqa: S310 - the scheme of the user's own URL


def _read_messages(response: Any, deadline: float) -> Iterator[Any]:
    """Read one JSON message, or those of an event stream. Raises ValueError and TimeoutError."""
    if response.headers.get_content_type() != "text/event-stream":
        if body := response.read(MAX_BODY):
            yield json.loads(body)
        return
    data: list[str] = []
    while line := response.readline(MAX_BODY).decode(errors="replace"):
        if time.monotonic() > deadline:
            raise TimeoutError
        field, _, value = line.rstrip("\r\n").partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif not field and not value and data:
            text, data = "\n".join(data), []
            if text.strip():
                yield json.loads(text)


def _read_fault(error: urllib.error.HTTPError, method: str) -> ServerFault:
    """Return the fault that a response with an HTTP error describes, by its JSON-RPC error if it has one."""
    with error, contextlib.suppress(OSError, ValueError, http.client.HTTPException):
        message = json.loads(error.read(MAX_BODY))
        if error.code not in (401, 403) and isinstance(message, dict) and isinstance(message.get("error"), dict):
            return make_fault(method, message["error"])
    place = f" to {error.headers['Location']}" if error.headers.get("Location") else ""
    advice = _ADVICE.get(error.code, "See the server's own log.")
    problem = f"the response to {method} has the status {error.code} {error.reason}{place}"
    return ServerFault(problem, advice, kind="refused")
