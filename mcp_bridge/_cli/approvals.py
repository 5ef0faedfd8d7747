"""`approvals list` and `approvals revoke`: list and revoke the remembered approvals in the store of the settings."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import anyio

from mcp_bridge._app.policies import open_approval_store
from mcp_bridge._cli import logs
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import GrantListOptions, RevokeOptions
from mcp_bridge._cli.output import format_count, print_lines, report, show_table, write_json
from mcp_bridge._cli.target import find_settings, is_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._policies.approvals.grants import Grant, GrantStore
from mcp_bridge._runtime.terminal_text import escape_line
from mcp_bridge._settings import Settings, load


def show_grants(options: GrantListOptions) -> None:
    """Print the lasting approvals as a table, as ids or as JSON."""
    grants = anyio.run(_list_grants, _open_store(load_approval_settings(options.file)))
    if options.as_json:
        write_json([asdict(grant) for grant in grants])
        return
    if options.quiet:
        for grant in grants:
            print_lines(escape_line(grant.id))
        return
    columns = ("id", "tool", "arguments", "allowed", "for", "since", "until")
    show_table(columns, [_to_cells(grant) for grant in grants], empty="no lasting approvals")


def revoke_grants(options: RevokeOptions) -> None:
    """Revoke one approval, or all. Exit with 3 if there is none. Raises ConfigError."""
    id = options.id
    file = options.file
    revoke_all = options.revoke_all
    # With --all, the only word is the file.
    if revoke_all and id is not None and file is None:
        file = Path(id)
        id = None
    if id is not None and file is None and is_settings(Path(id)):
        raise ConfigError(f"'{id}' is a file, not an id", where="revoke", hint="Put the id before it, or use --all")
    has_id = id is not None
    if revoke_all == has_id:
        raise ConfigError("no approval was selected", where="revoke", hint="Pass the id of an approval, or use --all")
    store = _open_store(load_approval_settings(file))
    grants = [grant for grant in anyio.run(_list_grants, store) if grant.id.startswith(id or "")]
    if len(grants) > 1 and not revoke_all:
        raise ConfigError(f"{len(grants)} ids start with '{id}'", where="revoke", hint="Pass more of the id")
    anyio.run(_revoke, store, grants)
    report(f"{format_count(len(grants), 'approval')} revoked")
    if not grants and not revoke_all:
        raise SystemExit(ExitCode.NOT_FOUND)


def load_approval_settings(file: Path | None) -> Settings:
    """Load the settings of a command about approvals. Raises ConfigError."""
    settings = load(find_settings(file, "the settings file that is served"), os.environ)
    logs.configure_logging("warning")
    logs.hide_secrets(settings.secrets)
    return settings


def _open_store(settings: Settings) -> GrantStore:
    """Open the store of approvals. Raises ConfigError if there is none."""
    store = open_approval_store(settings)
    if store is None:
        raise ConfigError("these settings remember no approvals", where="approvals.remember", hint="Set it to true")
    return store


async def _list_grants(store: GrantStore) -> list[Grant]:
    try:
        return await store.list_grants()
    except TypeError as error:
        hint = "Implement `async keys(prefix)`"
        raise ConfigError(f"this store cannot list its keys: {error}", where="state.store", hint=hint) from error
    except OSError as error:
        raise ConfigError(str(error), where="state.store") from error


async def _revoke(store: GrantStore, grants: list[Grant]) -> None:
    try:
        for grant in grants:
            await store.revoke_grant(grant.id)
    except OSError as error:
        raise ConfigError(str(error), where="state.store") from error


def _to_cells(grant: Grant) -> tuple[str, ...]:
    return (
        grant.id[:12],
        grant.tool,
        grant.arguments[:12],
        f"{grant.scope} {grant.session}".strip(),
        grant.principal or "everyone",
        _format_time(grant.at),
        _format_time(grant.until),
    )


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
