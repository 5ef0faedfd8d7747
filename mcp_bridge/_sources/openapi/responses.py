"""Turns responses into results of tools: JSON, text, images and files, and errors for the model."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import orjson

from mcp_bridge._contracts.content import Content, Text
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._json_schema.size_limits import MAX_VALUES, has_too_many_values
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._protocol.wire.values import from_bytes, to_plain_text
from mcp_bridge._runtime.exact_json import load_json
from mcp_bridge._runtime.http_client.requests import HttpResponse
from mcp_bridge._runtime.urls import split_url
from mcp_bridge._upstream.trust.screening import shorten_text

META_KEY = "mcp-bridge/http"
"""The key in `_meta` for the status of a response, and for its rate limits and links."""
MAX_ERROR = 2_000
"""The maximum number of characters of a response's body that an error contains."""
MAX_DIFFERENCES = 5
"""The maximum number of differences between a response and the document that a note lists."""
HTTP_ERROR = "http_error"
_RATE_LIMITS = ("limit", "remaining", "reset", "policy")
_TEXT_TYPES = ("json", "xml", "yaml", "javascript", "form-url")
_NEXT = re.compile(r'<([^<>]*)>\s*;[^,<]*\brel="?next\b', re.IGNORECASE)
"""The next page in a Link header (RFC 8288). The pattern never reads text twice, so a long header of a malicious server
cannot make it slow."""
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NO_CHARSETS = frozenset({"idna", "punycode"})
"""Encodings of Python that are no charsets of texts, and are slow."""


def to_result(response: HttpResponse, parameters: Mapping[str, str], *, has_schema: bool = False) -> ToolResult:
    """Turn a response into a result.

    Args:
        response: The response.
        parameters: The arguments of the tool by the names of the query parameters they set.
        has_schema: Whether the tool has an output schema. Then a response without content has an empty object as its
            output, because MCP requires structured content for such a tool.
    """
    meta = {META_KEY: describe_response(response)}
    if not 200 <= response.status < 300:
        return ToolResult(success=False, error=_describe_error(response), code=HTTP_ERROR, meta=meta)
    media_type = _get_media_type(response)
    body = response.body
    if body.startswith(_UTF16_MARKS):
        body = body.decode("utf-16", errors="replace").encode()
    body = body.removeprefix(codecs.BOM_UTF8)
    excess = ""
    # The HTTP client stops reading a body at its limit.
    if response.is_truncated:
        excess = f"{len(response.body)} bytes"
    elif "json" in media_type and has_too_many_values(body):
        excess = f"{MAX_VALUES} values"
    if excess:
        problem = f"the response has more than {excess}. The call did run. Request less, if possible"
        return ToolResult(success=False, error=problem, code="result_too_large", meta=meta)
    if not body or (has_schema and body.strip() == b"null"):
        text = f"HTTP status {response.status} {response.reason}".strip()
        content = [Text(text), *_list_headers(response)]
        return ToolResult(success=True, output={} if has_schema else None, content=content, meta=meta)
    note = _describe_next_page(response, parameters)
    if "json" in media_type:
        try:
            output = load_json(body)
        except orjson.JSONDecodeError:
            return ToolResult(success=True, output=_decode_body(response), meta=meta)
        if not note:
            return ToolResult(success=True, output=output, meta=meta)
        return ToolResult(success=True, output=output, content=[Text(to_plain_text(output)), Text(note)], meta=meta)
    if not _is_text(media_type) and (media_type or not _is_utf8(response.body)):
        file = from_bytes(response.body, media_type or "application/octet-stream", response.url)
        return ToolResult(success=True, content=[file, Text(note)] if note else [file], meta=meta)
    text = _decode_body(response)
    if not note:
        return ToolResult(success=True, output=text, meta=meta)
    return ToolResult(success=True, content=[Text(text), Text(note)], meta=meta)


def note_differences(result: ToolResult, validator: Validator) -> ToolResult:
    """Return a successful result whose output is an object, with a note if it differs from the API's document.

    The tool declares an output schema of objects, so another value is wrapped as `result`.
    """
    output = result.output
    if isinstance(output, dict) and validator.is_valid(output):
        return result
    content = result.content if result.content is not None else [Text(to_plain_text(output))]
    replacement: dict[str, Any] = {}
    problems = ["$: expected JSON"]
    if output is not None:
        problems = validator.describe_problems(output)[:MAX_DIFFERENCES]
        replacement = output if isinstance(output, dict) else {"result": output}
    lines = [shorten_text(problem) for problem in problems]
    note = Text("The call succeeded, but the response differs from the API's document:\n" + "\n".join(lines))
    return replace(result, output=replacement, content=[*content, note])


def describe_response(response: HttpResponse) -> dict[str, Any]:
    """Return the status of a response, with its rate limits and links if it has any."""
    headers = response.headers
    description: dict[str, Any] = {"status": response.status}
    for name in ("retry-after", "link", "etag", "location"):
        if headers.get(name):
            description[name] = headers[name]
    limits: dict[str, str] = {}
    for prefix in ("ratelimit", "x-ratelimit", "x-rate-limit"):
        for suffix in _RATE_LIMITS:
            value = headers.get(f"{prefix}-{suffix}")
            if value:
                limits.setdefault(suffix, value)
    if headers.get("ratelimit"):
        limits["ratelimit"] = headers["ratelimit"]
    if limits:
        description["rateLimit"] = limits
    return description


def _describe_error(response: HttpResponse) -> str:
    lines = [f"HTTP status {response.status} {response.reason}".strip()]
    location = response.headers.get("location")
    if 300 <= response.status < 400 and location:
        host = shorten_text(split_url(location).hostname or "another path")
        lines.append(f"The server redirects to {host}, which is not followed for this method.")
    if response.body and _is_text(_get_media_type(response)):
        text = _decode_body(response).strip()
        lines.append(text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]} [truncated]")
    seconds = response.headers.get("retry-after")
    if seconds:
        unit = " seconds" if seconds.isdecimal() else ""
        lines.append(f"Retry after {shorten_text(seconds)}{unit}.")
    return "\n".join(lines)


def _describe_next_page(response: HttpResponse, parameters: Mapping[str, str]) -> str:
    """Return a note with the arguments that request the next page, if the response links to one; else an empty text."""
    match = _NEXT.search(response.headers.get("link", ""))
    if match is None:
        return ""
    query = parse_qsl(split_url(match[1]).query)
    arguments = {parameters[name]: value for name, value in query if name in parameters}
    if not arguments:
        return "There are more results on a next page."
    text = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return f"There are more results. For the next page, call again with {shorten_text(text)}."


def _list_headers(response: HttpResponse) -> list[Content]:
    """Return text with the headers that a model may need if a response has no body, as for HEAD and 201."""
    names = ("content-type", "content-length", "last-modified", "etag", "location")
    lines = [f"{name}: {response.headers[name]}" for name in names if name in response.headers]
    return [Text("\n".join(lines))] if lines else []


def _get_media_type(response: HttpResponse) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_text(media_type: str) -> bool:
    return media_type.startswith("text/") or any(word in media_type for word in _TEXT_TYPES)


def _is_utf8(body: bytes) -> bool:
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False


def _decode_body(response: HttpResponse) -> str:
    """Decode a body with the charset that its byte order mark or its header names, or else as UTF-8."""
    if response.body.startswith(_UTF16_MARKS):
        return response.body.decode("utf-16", errors="replace")
    match = re.search(r"charset=\"?([\w.:-]+)", response.headers.get("content-type", ""), re.IGNORECASE)
    charset = match[1].lower() if match is not None else "utf-8"
    try:
        text = response.body.decode("utf-8" if charset in _NO_CHARSETS else charset, errors="replace")
    except (LookupError, UnicodeError):
        text = response.body.decode(errors="replace")
    return text.removeprefix("\ufeff")
