"""Files of clients are found in the places of each system."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import Machine, System
from mcp_bridge._desktop.locations import (
    find_place,
    find_project_folder,
    is_client_installed,
    resolve_place_path,
    resolve_server_keys,
)
from mcp_bridge._desktop.table import CLIENTS

ROO_FILE = "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"
WHERE = {
    "claude-desktop": {
        "darwin": "Library/Application Support/Claude/claude_desktop_config.json",
        "win32": "AppData/Roaming/Claude/claude_desktop_config.json",
        "linux": ".config/Claude/claude_desktop_config.json",
    },
    "claude-code": dict.fromkeys(("darwin", "win32", "linux"), ".claude.json"),
    "vscode": {
        "darwin": "Library/Application Support/Code/User/mcp.json",
        "win32": "AppData/Roaming/Code/User/mcp.json",
        "linux": ".config/Code/User/mcp.json",
    },
    "cursor": dict.fromkeys(("darwin", "win32", "linux"), ".cursor/mcp.json"),
    "windsurf": dict.fromkeys(("darwin", "win32", "linux"), ".codeium/windsurf/mcp_config.json"),
    "zed": {
        "darwin": ".config/zed/settings.json",
        "win32": "AppData/Roaming/Zed/settings.json",
        "linux": ".config/zed/settings.json",
    },
    "codex": dict.fromkeys(("darwin", "win32", "linux"), ".codex/config.toml"),
    "gemini-cli": dict.fromkeys(("darwin", "win32", "linux"), ".gemini/settings.json"),
    "goose": {
        "darwin": ".config/goose/config.yaml",
        "win32": "AppData/Roaming/Block/goose/config/config.yaml",
        "linux": ".config/goose/config.yaml",
    },
    "opencode": dict.fromkeys(("darwin", "win32", "linux"), ".config/opencode/opencode.json"),
    "copilot-cli": dict.fromkeys(("darwin", "win32", "linux"), ".copilot/mcp-config.json"),
    "lm-studio": dict.fromkeys(("darwin", "win32", "linux"), ".lmstudio/mcp.json"),
    "cline": dict.fromkeys(("darwin", "win32", "linux"), ".cline/data/settings/cline_mcp_settings.json"),
    "continue": dict.fromkeys(("darwin", "win32", "linux"), ".continue/config.yaml"),
    "visual-studio": dict.fromkeys(("darwin", "win32", "linux"), ".mcp.json"),
    "kiro": dict.fromkeys(("darwin", "win32", "linux"), ".kiro/settings/mcp.json"),
    "antigravity": dict.fromkeys(("darwin", "win32", "linux"), ".gemini/config/mcp_config.json"),
    "junie": dict.fromkeys(("darwin", "win32", "linux"), ".junie/mcp/mcp.json"),
    "qwen-code": dict.fromkeys(("darwin", "win32", "linux"), ".qwen/settings.json"),
    "amp": dict.fromkeys(("darwin", "win32", "linux"), ".config/amp/settings.json"),
    "crush": dict.fromkeys(("darwin", "win32", "linux"), ".config/crush/crushrc"),
    "warp": dict.fromkeys(("darwin", "win32", "linux"), ".warp/.mcp.json"),
    "librechat": dict.fromkeys(("darwin", "win32", "linux"), "work/librechat.yaml"),
    "roo-code": {
        "darwin": f"Library/Application Support/{ROO_FILE}",
        "win32": f"AppData/Roaming/{ROO_FILE}",
        "linux": f".config/{ROO_FILE}",
    },
    "kilo-code": dict.fromkeys(("darwin", "win32", "linux"), ".config/kilo/kilo.jsonc"),
}
SYSTEMS: tuple[System, ...] = ("darwin", "linux", "win32")
MSIX = "AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json"


def make_machine(home: Path, system: System = "linux", **environ: str) -> Machine:
    return Machine(system=system, home=home, environ=environ, folder=home / "work")


def resolve_user_file(name: str, where: Machine) -> Path:
    return resolve_place_path(CLIENTS[name].places[0], where)


def test_every_client_is_looked_for() -> None:
    assert set(CLIENTS) == set(WHERE)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_missing_file_would_be_created_where_the_client_reads_it(system: System, tmp_path: Path) -> None:
    where = make_machine(tmp_path, system)
    assert {name: resolve_user_file(name, where) for name in CLIENTS} == {
        name: tmp_path / paths[system] for name, paths in WHERE.items()
    }


@pytest.mark.parametrize("legacy", [True, False])
def test_on_windows_the_packaged_claude_desktop_is_preferred_also_before_it_has_a_file(
    tmp_path: Path, legacy: bool
) -> None:
    (tmp_path / MSIX).parent.parent.mkdir(parents=True)
    if legacy:
        old = tmp_path / "AppData/Roaming/Claude/claude_desktop_config.json"
        old.parent.mkdir(parents=True)
        old.write_text("{}")
    assert resolve_user_file("claude-desktop", make_machine(tmp_path, "win32")) == tmp_path / MSIX


@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("claude-desktop", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json"),
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("copilot-cli", "COPILOT_HOME", "mcp-config.json"),
        ("gemini-cli", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("cline", "CLINE_DATA_DIR", "settings/cline_mcp_settings.json"),
        ("continue", "CONTINUE_GLOBAL_DIR", "config.yaml"),
        ("qwen-code", "QWEN_HOME", "settings.json"),
        ("amp", "XDG_CONFIG_HOME", "amp/settings.json"),
        ("crush", "XDG_CONFIG_HOME", "crush/crushrc"),
        ("kilo-code", "XDG_CONFIG_HOME", "kilo/kilo.jsonc"),
    ],
)
def test_the_variable_for_a_clients_folder_is_respected(name: str, variable: str, file: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    assert resolve_user_file(name, make_machine(tmp_path, **{variable: str(elsewhere)})) == elsewhere / file


def test_an_empty_variable_moves_nothing(tmp_path: Path) -> None:
    assert resolve_user_file("codex", make_machine(tmp_path, CODEX_HOME="")) == tmp_path / ".codex/config.toml"


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("opencode", ".config/opencode/opencode.jsonc"),
        ("lm-studio", ".cache/lm-studio/mcp.json"),
        ("zed", ".var/app/dev.zed.Zed/config/zed/settings.json"),
        ("cline", ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        ("amp", ".config/amp/settings.jsonc"),
        ("kilo-code", ".config/kilo/kilo.json"),
    ],
)
def test_the_other_place_counts_where_the_file_is_in_it(name: str, second: str, tmp_path: Path) -> None:
    path = tmp_path / second
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert resolve_user_file(name, make_machine(tmp_path)) == path


# A Mac may have clients outside of the home folder.
@pytest.mark.parametrize("system", ["linux", "win32"])
def test_an_empty_machine_has_no_client(system: System, tmp_path: Path) -> None:
    where = make_machine(tmp_path, system, PATH="")
    assert [name for name, client in CLIENTS.items() if is_client_installed(client, where)] == []


@pytest.mark.parametrize("year", ["2022", "18"])
def test_visual_studio_is_a_client_of_windows(year: str, tmp_path: Path) -> None:
    (tmp_path / "Programs/Microsoft Visual Studio" / year).mkdir(parents=True)
    (tmp_path / ".mcp.json").write_text("{}")
    for system in SYSTEMS:
        machine = make_machine(tmp_path, system, PROGRAMFILES=str(tmp_path / "Programs"))
        assert is_client_installed(CLIENTS["visual-studio"], machine) == (system == "win32")


def test_amp_on_windows_also_has_a_file_in_the_roaming_folder(tmp_path: Path) -> None:
    path = tmp_path / "AppData/Roaming/amp/settings.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert resolve_user_file("amp", make_machine(tmp_path, "win32")) == path


def test_a_program_on_the_path_is_a_client(tmp_path: Path) -> None:
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert is_client_installed(CLIENTS["codex"], make_machine(tmp_path, PATH=str(tmp_path)))


def test_the_project_is_the_folder_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert find_project_folder(make_machine(tmp_path)) == tmp_path
    assert resolve_server_keys(find_place(CLIENTS["claude-code"], "local"), make_machine(tmp_path)) == (
        "projects",
        str(tmp_path),
        "mcpServers",
    )


def test_an_unknown_scope_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"Windsurf has no scope 'project'.*It has: user"):
        find_place(CLIENTS["windsurf"], "project")
