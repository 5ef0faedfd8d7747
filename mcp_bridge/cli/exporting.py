"""`export`, of tools: the formats of language models, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge.app.bridge import Bridge
from mcp_bridge.cli.delivering import deliver
from mcp_bridge.cli.exits import say
from mcp_bridge.cli.showing import started
from mcp_bridge.cli.target import find, load
from mcp_bridge.export import FORMATS, Export
from mcp_bridge.runtime.descriptors import private


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is wanted of an export: `only` has the tools' names, all otherwise."""

    strict: bool = False
    only: Sequence[str] = ()


Maker = Callable[[Bridge, Wishes], Any]


def _tools(form: str, bridge: Bridge, wishes: Wishes) -> Any:
    """The tools in a vendor's format; what there is to know about them goes to the person."""
    export = Export(bridge.registry, form, strict=wishes.strict, only=wishes.only)
    for problem in export.problems:
        say(str(problem))
    return export.tools


MAKERS: Mapping[str, Maker] = {name: partial(_tools, name) for name in FORMATS}
"""What can be exported, and how it is made of a bridge whose sources have said what they have."""


def export(form: str, path: Path | None, wishes: Wishes, output: Path | None) -> None:
    """Write an export as JSON to a file, or to stdout; problems go to stderr.

    Raises ConfigError for what cannot be written, ToolNotFound for a tool that is not there.
    """
    path = find(path)
    with private():  # stdout is for the export alone
        bridge = load(path).bridge
        anyio.run(started, bridge)
        made = MAKERS[form](bridge, wishes)
        for source, problems in bridge.problems.items():
            for problem in problems:
                say(f"source '{source}': {problem}")
    deliver(json.dumps(made, indent=2, ensure_ascii=False), output, kept=[path])
