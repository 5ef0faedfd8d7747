"""`doctor CLIENT` reads the files of that client, and its advice works for that client."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.kits.clients.doctoring import ERAS, DoctorHome, make_home

NEEDY = "instructions: ${SHELF_KEY}\nsources: [{type: python, path: tools.py}]\n"


@pytest.fixture
def user(tmp_path: Path) -> DoctorHome:
    """Return a user with a home and a project with tools."""
    return make_home(tmp_path)


def test_a_client_without_references_gets_no_advice_to_use_them(user: DoctorHome) -> None:
    (user.project / "s.yaml").write_text(NEEDY)
    assert user.run("install", "claude-desktop", "s.yaml", "--name", "shelf", env={"SHELF_KEY": "x"}).code == 0
    result = user.doctor("claude-desktop", env={"SHELF_KEY": "x"})
    assert "need the variable SHELF_KEY" in result.failures[ERAS[0]]
    assert "so that the entry refers to it" not in result.advice[ERAS[0]]
    assert "export mcpb" in result.advice[ERAS[0]]


@pytest.mark.parametrize("client", ["continue", "goose"])
def test_a_client_with_its_own_secrets_gets_no_warning_about_unset_variables(client: str, user: DoctorHome) -> None:
    (user.project / "s.yaml").write_text(NEEDY)
    assert user.run("install", client, "s.yaml", "--name", "shelf", env={"SHELF_KEY": "x"}).code == 0
    result = user.doctor(client)
    assert (result.code, result.failures) == (0, {})
    assert {"continue": "~/.continue/.env", "goose": "goose configure"}[client] in result.advice["secret SHELF_KEY"]
    assert result.advice["start"] == "Set it in this terminal to check the start."
    if client == "goose":
        tried = user.doctor(client, env={"SHELF_KEY": "x"})
        assert (tried.code, tried.failures) == (0, {})
        assert set(ERAS) <= {check["check"] for check in tried.server["checks"]}


def test_a_tool_file_that_cannot_be_read_is_not_called_settings(user: DoctorHome) -> None:
    user.tools.write_text("def broken(:\n")
    user.write_entry(sys.executable, "-m", "mcp_bridge", "serve", user.tools)
    assert user.doctor("gemini-cli").failures[ERAS[0]].startswith("a tool file cannot be imported")


def test_an_entry_is_started_in_the_folder_that_it_names(user: DoctorHome) -> None:
    place = user.home / "elsewhere"
    place.mkdir()
    user.write_entry(*user.write_light_server(), cwd=str(place))
    result = user.doctor("gemini-cli", "--name", "shelf", "--call", "where")
    assert result.code == 0
    assert result.server["folder"] == str(place)
    assert str(place) in next(check["detail"] for check in result.server["checks"] if check["check"].startswith("call"))


def test_all_without_any_bridge_is_json_too(user: DoctorHome) -> None:
    result = user.doctor("all")
    assert result.code == 2
    assert json.loads(result.out)["servers"] == []
