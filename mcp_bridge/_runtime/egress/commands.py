"""Builds the commands of `script.py` around a sandbox and inside it."""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path

from mcp_bridge._runtime.egress import script
from mcp_bridge._runtime.egress.hosts import HostRules

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def wrap_sandbox(command: list[str], hosts: tuple[str, ...], addresses: tuple[str, ...]) -> list[str]:
    """Return the command that starts a proxy and the program of a sandbox.

    Args:
        command: The program of the sandbox and its arguments, which end with the result of `wrap_command`.
        hosts: The hosts that can be reached, as `parse_rule` reads them.
        addresses: Networks of allowed addresses of these hosts, as `parse_networks` reads them.
    """
    options = {"path": _list_import_paths(), "hosts": hosts, "addresses": addresses}
    return [sys.executable, "-I", "-S", script.__file__, "outside", json.dumps(options), *command]


def wrap_command(command: list[str], hosts: tuple[str, ...]) -> list[str]:
    """Return the command that makes the proxy available in the sandbox, and then executes `command`."""
    return [sys.executable, "-I", "-S", script.__file__, "inside", _list_direct_names(hosts), *command]


@cache
def _list_import_paths() -> list[str]:
    """Return the folders from which the proxy imports. There are no others, because a tool might write to them."""
    paths = []
    for name in ("h11", "mcp_bridge"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        paths.append(str(Path(spec.origin).parent.parent))
    return paths


@cache
def _list_direct_names(hosts: tuple[str, ...]) -> str:
    """Return the value of NO_PROXY: the names of the sandbox itself, except those that the settings list."""
    rules = HostRules.from_texts(hosts)
    listed_names = {rule.host for rule in rules.rules}
    return ",".join(name for name in _LOOPBACK_NAMES if name not in listed_names)
