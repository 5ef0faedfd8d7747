"""`install` starts the server once like the client, and installs nothing if that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.clients.clients_running import ClientHome, make_home

CHECK = "--check"


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ("import nothing_of_this_name\n", "nothing_of_this_name"),
        ("def broken(:\n", "cannot be imported"),
        ("_private = 1\n", "no tools found"),
    ],
)
def test_a_server_that_cannot_start_or_has_no_tools_is_not_installed(tools: str, why: str, user: ClientHome) -> None:
    (user.project / "tools.py").write_text(tools)
    for served in ("tools.py", "shelf.yaml"):
        result = user.run("install", "cursor", served, CHECK, check=1)
        assert "nothing was installed" in result.stderr
        assert why in result.stderr
        assert "--no-check" in result.stderr
    assert not user.path("cursor").exists()
    result = user.json("install", "cursor", "tools.py", CHECK, check=1)
    assert result["action"] == "refused"
    assert any(not item["ok"] for item in result["checks"])
    assert "installed:" in user.run("install", "cursor", "tools.py", "--no-check").stderr


def test_an_unknown_key_in_the_settings_is_not_installed(user: ClientHome) -> None:
    user.settings.write_text("name: shelf\nsources:\n  - {type: python, path: tools.py, prefx: x}\n")
    result = user.run("install", "cursor", user.settings, CHECK, check=1)
    assert "did you mean 'prefix'?" in result.stderr
    assert not user.path("cursor").exists()


def test_an_unknown_key_is_reported_where_variables_are_not_set_too(user: ClientHome) -> None:
    user.settings.write_text("nmae: shelf\nstate: {keys: '${SHELF_KEY}'}\nsources: [{type: python, path: tools.py}]\n")
    assert "unknown key 'nmae'" in user.run("install", "cursor", user.settings, check=2).stderr
    assert not user.path("cursor").exists()


def test_a_failing_source_next_to_a_working_one_is_a_warning(user: ClientHome) -> None:
    (user.project / "broken.py").write_text("import nothing_of_this_name\n")
    user.settings.write_text("sources:\n  - {type: python, path: tools.py}\n  - {type: python, path: broken.py}\n")
    result = user.run("install", "cursor", user.settings, CHECK, check=None)
    assert "WARNING" in result.stderr or "nothing was installed" in result.stderr
    assert "nothing_of_this_name" in result.stderr


@pytest.mark.parametrize("client", ["claude-desktop", "cursor", "goose", "codex"])
def test_a_server_that_works_is_installed(client: str, tmp_path: Path) -> None:
    user = make_home(tmp_path, SHELF_KEY="a-key-that-is-long-enough-for-the-state-of-it")
    user.settings.write_text("name: shelf\nstate: {keys: '${SHELF_KEY}'}\nsources: [{type: python, path: tools.py}]\n")
    result = user.run("install", client, user.settings, CHECK)
    assert "installed: 'shelf'" in result.stderr
    assert "WARNING" not in result.stderr


def test_settings_with_an_unset_variable_are_installed_without_a_check(user: ClientHome) -> None:
    user.settings.write_text("name: shelf\nstate: {keys: '${SHELF_KEY}'}\nsources: [{type: python, path: tools.py}]\n")
    result = user.run("install", "cursor", user.settings, CHECK)
    assert "not started to check it, because SHELF_KEY is not set here" in result.stderr
    assert user.path("cursor").exists()


def test_a_taken_name_is_reported_before_any_source_starts(user: ClientHome) -> None:
    user.write_file("cursor", b'{"mcpServers": {"shelf": {"command": "npx"}}}')
    (user.project / "tools.py").write_text("from pathlib import Path\nPath('started').touch()\n")
    assert "--force" in user.run("install", "cursor", user.settings, CHECK, check=2).stderr
    assert not (user.project / "started").exists()


@pytest.mark.parametrize(
    ("client", "key", "line"),
    [("codex", "required", "required = true\n"), ("qwen-code", "alwaysLoadTools", ',\n      "alwaysLoadTools": true')],
)
def test_doctor_warns_about_an_entry_whose_tools_are_not_in_the_first_request(
    client: str, key: str, line: str, user: ClientHome
) -> None:
    user.run("install", client, user.settings)
    path = user.path(client)
    first = [item["check"] for item in user.json("doctor", client, check=None)["servers"][0]["checks"]]
    assert line in path.read_text()
    path.write_text(path.read_text().replace(line, ""))
    (server,) = user.json("doctor", client, check=None)["servers"]
    warnings = [item for item in server["checks"] if item["check"] == "first turn"]
    assert "first turn" not in first
    assert f"'{key}'" in warnings[0]["advice"]
    assert server["ok"]


def test_doctor_reports_that_claude_code_does_not_wait_for_servers(user: ClientHome) -> None:
    user.run("install", "claude-code", user.settings)
    (server,) = user.json("doctor", "claude-code", check=None)["servers"]
    (message,) = [item for item in server["checks"] if item["check"] == "first turn"]
    assert message["ok"]
    assert "does not wait for servers before its first request" in message["detail"]


SHELVES = """
from pydantic import BaseModel
from mcp_bridge import tool


class Shelf(BaseModel):
    inner: list["Shelf"] = []


@tool
def count(shelf: Shelf) -> str:
    return "1"
"""


def test_tools_that_the_client_would_reject_are_reported_and_the_server_is_installed(user: ClientHome) -> None:
    (user.project / "tools.py").write_text(SHELVES)
    result = user.run("install", "gemini-cli", user.settings, CHECK)
    assert "installed: 'shelf'" in result.stderr
    assert "WARNING: tool 'count': $.inputSchema.properties.shelf.$ref: `$ref` in 2 places" in result.stderr
    assert "Set `dialect: gemini-cli`" in result.stderr
    user.settings.write_text("name: shelf\ndialect: gemini-cli\nsources: [{type: python, path: tools.py}]\n")
    assert "WARNING" not in user.run("install", "gemini-cli", user.settings, CHECK, "--force", "--name", "other").stderr


def test_tools_that_the_client_degrades_are_a_note(user: ClientHome) -> None:
    (user.project / "tools.py").write_text(SHELVES)
    notes = user.json("install", "codex", user.settings, CHECK)["notes"]
    assert any(note.startswith("note: tools: Codex degrades 1 thing, such as: `$ref`") for note in notes)
