"""`import openapi`: fetches an OpenAPI document once, and stores it as one file for a source of type `openapi`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio

from mcp_bridge._cli.desktop_options import OpenApiImportOptions
from mcp_bridge._cli.drafting.draft import render_source
from mcp_bridge._cli.output import format_count, report, write_json
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._runtime.file_names import make_file_name
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
    """Store a document, and report its operations and a source for the settings.

    Raises ConfigError if the file exists, or the document cannot be fetched or used.
    """
    try:
        networks = parse_networks(options.allow or ())
    except ValueError as error:
        raise ConfigError(str(error), where="--allow") from None
    try:
        url = options.source
        if not re.match(r"https?://", url):
            url = Path(url).absolute().as_uri()
        data = anyio.run(_load_bundle, url, AddressPolicy(networks))
        document = ApiDocument(data)
    except (SourceError, HttpClientError) as error:
        raise ConfigError(f"{options.source}: {error}") from error
    except RecursionError:
        raise ConfigError(f"{options.source}: it is nested too deeply") from None
    problems: list[str] = []
    operations = name_operations(find_operations(document, problems))
    title = re.sub(r"[^a-z0-9]+", "-", str(document.info.get("title") or "").lower()).strip("-")
    out = options.out or Path(f"{make_file_name(title[:40].strip('-') or 'openapi')}.json")
    changes = _compare(out, document, operations)
    _write_file(out, data, force=options.force)
    entry: dict[str, Any] = {"type": "openapi", "document": str(out)}
    servers, auth = document.data.get("servers"), draft_auth(document)
    if not isinstance(servers, list) or not servers:
        # The user replaces this address.
        entry["server"] = "https://api.example.com"
    if auth:
        entry["auth"] = auth
    if options.as_json:
        result = {"file": str(out), "operations": list(operations), "changes": changes}
        write_json(result | {"source": entry, "problems": problems})
        return
    report(f"Wrote {out}: {format_count(len(operations), 'operation')}, OpenAPI {document.data['openapi']}.")
    for problem in problems:
        report(f"PROBLEM: {problem}")
    _report_changes(changes)
    # Each scheme of the authentication is on one line.
    report("A source for the settings:", "", *render_source(entry, flow_depth=2).splitlines())
    if auth:
        report("", "Set these variables, and remove the schemes that you have no credentials for.")


async def _load_bundle(url: str, policy: AddressPolicy) -> dict[str, Any]:
    """Load a document and all its references. Raises SourceError and HttpClientError."""
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


def _compare(out: Path, document: ApiDocument, operations: Mapping[str, Operation]) -> dict[str, list[str]]:
    """Return the new, changed and removed operations in comparison to the file, if there is one."""
    if not out.exists():
        return {}
    try:
        old_document = read_document(out)
    except SourceError:
        return {}
    old_operations = name_operations(find_operations(old_document, []))
    changes: dict[str, list[str]] = {"new": [], "changed": [], "removed": []}
    for name, operation in operations.items():
        if name not in old_operations:
            changes["new"].append(name)
        elif operation.content != old_operations[name].content:
            changes["changed"].append(name)
    if old_document.data.get("components") != document.data.get("components"):
        changes["changed"].append("components, which operations refer to")
    changes["removed"] = [name for name in old_operations if name not in operations]
    return changes


def _report_changes(changes: Mapping[str, Sequence[str]]) -> None:
    for change, names in changes.items():
        if names:
            report(f"{change.capitalize()}:")
        for name in names[:MAX_LISTED]:
            report(f"  {name}")
        if len(names) > MAX_LISTED:
            report(f"  … and {len(names) - MAX_LISTED} more")


def _write_file(out: Path, data: Mapping[str, Any], *, force: bool) -> None:
    # orjson writes no integers of more than 64 bits.
    text = json.dumps(data, indent=2, ensure_ascii=False)
    try:
        with out.open("w" if force else "x", encoding="utf-8", errors="replace") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        hint = "Replace it with --force, or use another --out FILE"
        raise ConfigError("this file exists", path=str(out), hint=hint) from None
    except OSError as error:
        raise ConfigError(f"it cannot be written: {error.strerror}", path=str(out)) from None
