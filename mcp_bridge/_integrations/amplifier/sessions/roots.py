"""Asks clients for the folders in which their sessions work: the first of their roots (`working_dir: roots`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from mcp_bridge._contracts.errors import CallError, Overloaded
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._runtime.platform import system

logger = logging.getLogger("mcp_bridge.amplifier")

# Returns None for the working directory of the settings.
AskRoot = Callable[[RunningCall], Awaitable[Path | None]]
NOT_ASKED = "clients that share a session are not asked"


async def ask_for_root(ctx: RunningCall) -> Path | None:
    """Ask the client for its roots, and return the folder of the first root that is a `file://` URI.

    If there is no such folder, log the reason and return None: the session then works in the settings' folder. Clients
    that share a session are not asked, because one of them would choose the folder of all. Raises Overloaded if too
    many questions are pending; the next call asks again.
    """
    if not ctx.session:
        log_fallback(NOT_ASKED)
        return None
    try:
        uris = [root.uri for root in await ctx.roots(fallback=())]
    except Overloaded:
        raise
    except CallError as error:
        log_fallback(f"the client has not listed its roots ({error})")
        return None
    uri = next((uri for uri in uris if uri.lower().startswith("file:")), None)
    if uri is None:
        log_fallback("the client has no file:// root")
        return None
    folder = _to_folder(uri)
    if folder is None:
        log_fallback(f"the client's root {uri!r} is not a folder here")
    return folder


def log_fallback(problem: str) -> None:
    logger.warning("working_dir: roots: %s, so this session works in the settings' folder", problem)


def _to_folder(uri: str) -> Path | None:
    """Return the folder of a `file://` URI, or None if this machine or this worker has no such folder."""
    try:
        parts = urlsplit(uri)
        path = system.convert_uri_path(parts.path)
        is_here = parts.netloc.lower() in ("", "localhost")
        if is_here and os.path.isabs(path) and os.path.isdir(path):
            return Path(path).resolve()
    except (OSError, ValueError):
        # The URI comes from the client, and may contain anything.
        return None
    return None
