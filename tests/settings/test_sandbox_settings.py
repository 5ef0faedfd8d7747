"""A sandbox in the settings is never ignored: it is read, or it is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import load
from mcp_bridge._sources.command.options import CommandOptions
from mcp_bridge._sources.upstream.options import UpstreamOptions

FORMS = "expected bubblewrap, landlock, auto, true, or a mapping with type, network, allow_addresses, read and write"


def test_an_empty_sandbox_of_a_worker_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "bridge.yaml"
    file.write_text("sources:\n- type: python\n  path: tools.py\n  isolation:\n    sandbox:\n")
    with pytest.raises(ConfigError, match=f"bridge.yaml:5.*{FORMS}, or false"):
        load(file, {})


@pytest.mark.parametrize("sandbox", [None, "firejail"])
def test_an_empty_or_unknown_sandbox_of_a_program_is_an_error(sandbox: Any) -> None:
    with pytest.raises(ValueError, match=FORMS):
        UpstreamOptions(command="x", sandbox=sandbox)
    with pytest.raises(ValueError, match=FORMS):
        CommandOptions(tools={"x": {"command": ["x"]}}, sandbox=sandbox)  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("sandbox", "problem"),
    [
        ({"allow_addresses": ["private"]}, "allow_addresses requires a list of hosts in network"),
        ({"network": True, "allow_addresses": ["private"]}, "allow_addresses requires a list of hosts in network"),
        ({"type": "landlock", "network": ["a.example"]}, "Landlock cannot limit the network to a list of hosts"),
    ],
)
def test_settings_without_effect_are_rejected(sandbox: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        UpstreamOptions(command="x", sandbox=sandbox)


def load_client_sandbox(folder: Path, sandbox: Any) -> UpstreamOptions:
    """Return the options of a server with this sandbox in a client's file."""
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": {"command": "server", "sandbox": sandbox}}}))
    (source,) = load(file, {}).sources
    return UpstreamOptions(**source.options)


@pytest.mark.parametrize(
    "sandbox",
    [
        True,
        {},
        {"type": "landlock"},
        {"type": "bubblewrap", "network": ["a.example"], "allow_addresses": ["private"]},
        {"network": False},
        {"network": "a.example"},
        {"read": ["a"], "network": {"allow": []}},
        {"type": "landlock", "netwrok": True},
        None,
        7,
        ["bubblewrap"],
        "firejail",
    ],
)
def test_a_sandbox_in_the_file_of_a_client_is_that_of_a_source(tmp_path: Path, sandbox: Any) -> None:
    try:
        expected = UpstreamOptions(command="server", sandbox=sandbox)
    except ValueError:
        with pytest.raises(ValueError, match="sandbox"):
            load_client_sandbox(tmp_path, sandbox)
    else:
        assert load_client_sandbox(tmp_path, sandbox) == expected
        assert expected.sandbox is not None
