"""The working directory of a client's session: the first folder among its roots."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from mcp_bridge._contracts.errors import CallError, Overloaded
from mcp_bridge._contracts.running_call import RunningCall

logger = logging.getLogger("mcp_bridge.amplifier")

# Returns None for the working directory of the settings.
AskRoot = Callable[[RunningCall], Awaitable[Path | None]]
NOT_ASKED = "clients that share a session are not asked"


async def ask_for_root(ctx: RunningCall) -> Path | None:
    """Ask the client for its roots, and return the folder of the first that is a `file://` URI.

    Returns None and logs the reason where there is no such folder: the session then works in the settings' folder.
    Clients that share a session are not asked, because one of them would choose the folder of all. Raises Overloaded
    where too many calls are pending; the next call asks again.
    """
    problem = NOT_ASKED
    if ctx.session:
        try:
            uris = [root.uri for root in await ctx.roots(fallback=())]
        except Overloaded:
            raise
        except CallError as error:
            problem = f"the client has not listed its roots ({error})"
        else:
            uri = next((uri for uri in uris if uri.lower().startswith("file:")), None)
            if uri is None:
                problem = "the client has no file:// root"
            elif (folder := _to_folder(uri)) is not None:
                return folder
            else:
                problem = f"the client's root {uri!r} is not a folder here"
    log_fallback(problem)
    return None


def log_fallback(problem: str) -> None:
    logger.warning("working_dir: roots: %s, so this session works in the settings' folder", problem)


def _to_folder(uri: str) -> Path | None:
    """The folder of a `file://` URI, or None where this machine or this worker has no such folder."""
    # Import late, because this imports an HTTP client.
    from urllib.request import url2pathname

    try:
        parts = urlsplit(uri)
        path = url2pathname(parts.path)
        is_here = parts.netloc.lower() in ("", "localhost") and os.path.isabs(path) and os.path.isdir(path)
        return Path(path).resolve() if is_here else None
    except (OSError, ValueError):
        return None
