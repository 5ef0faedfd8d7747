"""Bridges with a Python source in the process of the bridge or in workers, for tests of isolation."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT

OFFERS = tuple(Path(__file__).with_name(name) for name in ("isolated_offers.py", "isolated_asking.py"))
VARIES = re.compile(r'(?<=reference )[0-9a-f]{12}|(?<=at 0x)[0-9a-f]+|(?<="elicitationId": ")[0-9a-f]+')
Json = dict[str, Any]


def build_bridge(folder: Path, isolation: Any = None, *, tools: str = "", watch: bool = False, **more: Any) -> Bridge:
    """Build a bridge with one source, with these tools or all. Without `isolation`, they run in this process."""
    offered = folder / "offered"
    offered.mkdir(exist_ok=True)
    for name, text in {"own.py": tools}.items() if tools else ((path.name, path.read_text()) for path in OFFERS):
        (offered / name).write_text(text)
    source = {"type": "python", "path": "offered", **({"isolation": isolation} if isolation is not None else {})}
    (folder / "bridge.json").write_text(json.dumps({"sources": [source], **more}))
    return build_from_settings(load(folder / "bridge.json", {}), watch=watch)


def dump_result(value: Any) -> Any:
    """Return a result of the client as JSON, without varying parts."""
    raw = value.model_dump(mode="json", by_alias=True) if hasattr(value, "model_dump") else value
    return json.loads(VARIES.sub("", json.dumps(raw)))


async def run_in_both_modes(
    folder: Path, do: Callable[[Any], Awaitable[Any]], options: Callable[[], Mapping[str, Any]] = dict, **more: Any
) -> tuple[Any, Any]:
    """Return the values of `do` for a client of the source in this process, and for one of it in a worker."""
    values = []
    for isolation in (None, {"workers": 4}):
        with anyio.fail_after(TIMEOUT):
            async with connect(build_bridge(folder, isolation, **more), **options()) as client:
                values.append(await do(client))
    return values[0], values[1]
