"""A client starts the command of its entry with the environment of that client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._desktop.client import InstalledServer, Machine, ServerEntry, ServerLaunch, System
from mcp_bridge._desktop.entries import BARE_PATH, build_entry_value, can_reference_variables, resolve_launch
from mcp_bridge._desktop.table import CLIENTS

HOME = Path("/home/someone")
WORK = HOME / "work"
ENTRY = ServerEntry(name="shelf", command="/opt/mcp-bridge", args=("serve", "/srv/shelf.yaml"), secrets=("TOKEN",))
REFERRING = [name for name, client in CLIENTS.items() if can_reference_variables(client)]


def make_machine(system: System = "linux", **environ: str) -> Machine:
    has = {"HOME": str(HOME), "PATH": "/home/someone/bin:/usr/bin", "USER": "someone", "EDITOR": "vi", **environ}
    return Machine(system=system, home=HOME, environ=has, folder=WORK)


def resolve_client_launch(name: str, where: Machine, value: dict[str, Any] | None = None) -> ServerLaunch:
    client = CLIENTS[name]
    entry_value = value if value is not None else build_entry_value(client, ENTRY)
    place = client.places[0]
    return resolve_launch(
        InstalledServer(client=name, place=place, path=HOME / "file", name="shelf", value=entry_value), where
    )


@pytest.mark.parametrize("name", REFERRING)
def test_a_reference_is_resolved_in_the_clients_environment_or_reported(name: str) -> None:
    result = resolve_client_launch(name, make_machine(TOKEN="t"))
    assert list(result.argv) == ["/opt/mcp-bridge", "serve", "/srv/shelf.yaml"]
    assert result.environ["TOKEN"] == "t"
    assert result.unresolved == ()
    assert resolve_client_launch(name, make_machine()).unresolved == ("TOKEN",)


@pytest.mark.parametrize("name", ["claude-desktop", "lm-studio"])
@pytest.mark.parametrize("system", ["darwin", "linux"])
def test_an_app_of_the_desktop_has_a_bare_path_and_nothing_of_the_shell(name: str, system: System) -> None:
    result = resolve_client_launch(name, make_machine(system, TOKEN="t"))
    assert list(result.argv) == ["/opt/mcp-bridge", "serve", "/srv/shelf.yaml"]
    assert result.environ["PATH"] == BARE_PATH
    assert not {"TOKEN", "EDITOR"} & set(result.environ)
    assert result.folder in {Path("/"), HOME}


def test_windows_has_one_path_for_all_programs() -> None:
    assert (
        resolve_client_launch("claude-desktop", make_machine("win32")).environ["PATH"] == "/home/someone/bin:/usr/bin"
    )


@pytest.mark.parametrize("name", ["claude-code", "vscode", "zed", "opencode", "copilot-cli", "qwen-code"])
def test_clients_of_the_shell_pass_its_environment_on(name: str) -> None:
    result = resolve_client_launch(name, make_machine(TOKEN="t"))
    assert result.environ["EDITOR"] == "vi"
    assert result.folder == WORK


@pytest.mark.parametrize("name", ["codex", "gemini-cli", "cline", "kiro", "roo-code", "librechat"])
def test_careful_clients_hand_on_little(name: str) -> None:
    result = resolve_client_launch(name, make_machine(TOKEN="t"), {"command": "x"})
    assert "PATH" in result.environ
    assert not {"TOKEN", "EDITOR"} & set(result.environ)


@pytest.mark.parametrize(
    ("name", "value", "seconds"),
    [
        ("codex", {}, 30.0),
        ("codex", {"startup_timeout_sec": 5}, 5.0),
        ("gemini-cli", {"timeout": 15000}, 15.0),
        ("opencode", {"timeout": 2500}, 2.5),
        ("goose", {"timeout": True}, 300.0),
        ("goose", {"timeout": -1}, 300.0),
        ("goose", {"timeout": "long"}, 300.0),
        ("claude-code", {"timeout": 5}, 30.0),
        ("qwen-code", {"discoveryTimeoutMs": 45000, "timeout": 5}, 45.0),
        ("kilo-code", {"timeout": 20000}, 20.0),
        ("kiro", {}, 300.0),
    ],
)
def test_the_timeout_of_the_entry_applies_if_the_client_has_one(
    name: str, value: dict[str, Any], seconds: float
) -> None:
    assert resolve_client_launch(name, make_machine(), value).timeout == seconds


@pytest.mark.parametrize(
    ("name", "text", "expected", "unresolved"),
    [
        ("claude-code", "${TOKEN:-none}", "none", ()),
        ("claude-code", "a${TOKEN}b", "a${TOKEN}b", ("TOKEN",)),
        ("copilot-cli", "$USER", "someone", ()),
        ("gemini-cli", "$TOKEN", "$TOKEN", ("TOKEN",)),
        ("vscode", "a${env:TOKEN}b", "ab", ("TOKEN",)),
        ("opencode", "{env:TOKEN}", "", ("TOKEN",)),
        ("cursor", "${TOKEN}", "${TOKEN}", ()),
        ("qwen-code", "$TOKEN ${TOKEN}", "$TOKEN ${TOKEN}", ("TOKEN",)),
        ("roo-code", "a${env:TOKEN}b", "a${env:TOKEN}b", ("TOKEN",)),
        ("kilo-code", "{env:TOKEN}", "", ("TOKEN",)),
    ],
)
def test_references_are_replaced_as_the_client_does(
    name: str, text: str, expected: str, unresolved: tuple[str, ...]
) -> None:
    client = CLIENTS[name]
    key = next(key for key, value in client.shape.items() if value == "{env}")
    result = resolve_client_launch(name, make_machine(), {**build_entry_value(client, ENTRY), key: {"X": text}})
    assert result.environ["X"] == expected
    assert tuple(result.unresolved) == unresolved
