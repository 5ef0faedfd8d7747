"""`import openapi`: fetches an OpenAPI document once, and stores it as one file for a source of type `openapi`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio

from mcp_bridge._cli.desktop_options import OpenApiImportOptions
from mcp_bridge._cli.output import format_count, report, write_json
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._runtime.http_client.addresses import AddressPolicy, parse_networks
from mcp_bridge._runtime.http_client.requests import ApiRequest, HttpClientError
from mcp_bridge._sources.openapi.bundling import bundle_document
from mcp_bridge._sources.openapi.credentials import draft_auth
from mcp_bridge._sources.openapi.document import MAX_DOCUMENT, ApiDocument, read_document
from mcp_bridge._sources.openapi.operations import Operation, find_operations, name_operations

MAX_LISTED = 20
"""The maximum number of operations that are listed as new, changed or removed."""
TIMEOUT = 60.0
"""Seconds that fetching everything may take."""


def import_document(options: OpenApiImportOptions) -> None:
    """Store a document, and report its operations and what to add to the settings.

    Raises ConfigError for a file that exists, and for a document that cannot be fetched or used.
    """
    try:
        networks = parse_networks(options.allow or ())
    except ValueError as error:
        raise ConfigError(str(error), where="--allow") from None
    try:
        data = anyio.run(_load_bundle, _to_url(options.source), AddressPolicy(networks))
        document = ApiDocument(data)
    except (SourceError, HttpClientError) as error:
        raise ConfigError(f"{options.source}: {error}") from error
    except RecursionError:
        raise ConfigError(f"{options.source}: it is nested too deeply") from None
    problems: list[str] = []
    operations = name_operations(find_operations(document, (), (), problems))
    out = options.out or Path(f"{_make_file_name(document)}.json")
    changes = _compare(out, document, operations)
    _write_file(out, data, force=options.force)
    entry = _draft_entry(document, out)
    if options.as_json:
        write_json(
            {
                "file": str(out),
                "operations": list(operations),
                "changes": changes,
                "source": entry,
                "problems": problems,
            }
        )
        return
    report(f"Wrote {out}: {format_count(len(operations), 'operation')}, OpenAPI {document.data['openapi']}.")
    report(*(f"PROBLEM: {problem}" for problem in problems))
    for kind, names in changes.items():
        more = [f"  … and {len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
        report(*([f"{kind.capitalize()}:", *(f"  {name}" for name in names[:MAX_LISTED]), *more] if names else []))
    report("A source for the settings:", "", "sources:", *_format_entry(entry))
    if "auth" in entry:
        report("", "Set these variables, and remove the schemes that you have no credentials for.")


def _to_url(source: str) -> str:
    return source if re.match(r"https?://", source) else Path(source).absolute().as_uri()


async def _load_bundle(url: str, policy: AddressPolicy) -> dict[str, Any]:
    if url.startswith("file:"):
        return await bundle_document(url, _read_document_file)
    from mcp_bridge._runtime.http_client.client import HttpClient

    client = HttpClient(policy, max_body=MAX_DOCUMENT)

    async def fetch(url: str) -> bytes:
        response = await client.fetch_response(
            ApiRequest("GET", url, headers={"accept": "application/json, application/yaml, */*"})
        )
        if response.status != 200:
            raise SourceError(f"the server responded with HTTP status {response.status}")
        if response.is_truncated:
            raise SourceError(f"it has more than {MAX_DOCUMENT // 2**20} MiB")
        return response.body

    try:
        with anyio.fail_after(TIMEOUT):
            return await bundle_document(url, fetch)
    except TimeoutError:
        raise SourceError(f"it could not be fetched within {TIMEOUT:g} seconds") from None
    finally:
        await client.close()


async def _read_document_file(url: str) -> bytes:
    path = anyio.Path(unquote(urlsplit(url).path))
    try:
        return await path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error


def _make_file_name(document: ApiDocument) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", str(document.info.get("title") or "").lower()).strip("-")
    return name[:40].strip("-") or "openapi"


def _compare(out: Path, document: ApiDocument, operations: Mapping[str, Operation]) -> dict[str, list[str]]:
    """Return which operations are new, changed and removed in comparison to the file, if there is one."""
    if not out.exists():
        return {}
    try:
        known = read_document(out)
    except SourceError:
        return {}
    old = name_operations(find_operations(known, (), (), []))
    shared = [name for name in operations if name in old]
    changed = [name for name in shared if operations[name].content != old[name].content]
    if known.data.get("components") != document.data.get("components"):
        changed.append("components, which operations refer to")
    return {
        "new": [name for name in operations if name not in old],
        "changed": changed,
        "removed": [name for name in old if name not in operations],
    }


def _write_file(out: Path, data: Mapping[str, Any], *, force: bool) -> None:
    text = json.dumps(data, indent=2, ensure_ascii=False)  # orjson writes no integers of more than 64 bits
    try:
        with out.open("w" if force else "x", encoding="utf-8", errors="replace") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        hint = "Replace it with --force, or use another --out FILE"
        raise ConfigError("this file exists", path=str(out), hint=hint) from None
    except OSError as error:
        raise ConfigError(f"it cannot be written: {error.strerror}", path=str(out)) from None


def _draft_entry(document: ApiDocument, out: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "openapi", "document": str(out)}
    servers = document.data.get("servers")
    if not isinstance(servers, list) or not servers:
        entry["server"] = "https://api.example.com"
    auth = draft_auth(document)
    return {**entry, "auth": auth} if auth else entry


def _format_entry(entry: Mapping[str, Any]) -> list[str]:
    """Format the entry as YAML: JSON is YAML where a value needs quotes."""
    lines: list[str] = []
    for key, value in entry.items():
        start = "  - " if not lines else "    "
        if isinstance(value, dict):
            lines += [f"{start}{key}:", *(f"      {name}: {_format_value(one)}" for name, one in value.items())]
        else:
            lines.append(f"{start}{key}: {_format_value(value)}")
    return lines


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_format_value(one)}' for key, one in value.items())}}}"
    return value if re.fullmatch(r"[A-Za-z0-9_./:-]+", value) else json.dumps(value)
