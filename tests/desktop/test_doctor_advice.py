"""`doctor CLIENT` advises what can work for that client, and looks where the client looks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.kits.clients.doctoring import ERAS, Person, somebody

pytestmark = pytest.mark.timeout(400)

NEEDY = "instructions: ${SHELF_KEY}\nsources: [{type: python, path: tools.py}]\n"


@pytest.fixture
def person(tmp_path: Path) -> Person:
    """Somebody with a home and a project that has tools."""
    return somebody(tmp_path)


def test_a_client_without_references_gets_no_advice_to_use_them(person: Person) -> None:
    (person.project / "s.yaml").write_text(NEEDY)
    assert person.run("install", "claude-desktop", "s.yaml", "--name", "shelf", env={"SHELF_KEY": "x"}).code == 0
    done = person.doctor("claude-desktop", env={"SHELF_KEY": "x"})
    assert "need the variable SHELF_KEY" in done.failed[ERAS[0]]
    assert "so that the entry refers to it" not in done.cures[ERAS[0]]
    assert "export mcpb" in done.cures[ERAS[0]]


@pytest.mark.parametrize("client", ["continue", "goose"])
def test_a_client_with_its_own_secrets_gets_no_warning_about_unset_variables(client: str, person: Person) -> None:
    (person.project / "s.yaml").write_text(NEEDY)
    assert person.run("install", client, "s.yaml", "--name", "shelf", env={"SHELF_KEY": "x"}).code == 0
    done = person.doctor(client)
    assert (done.code, done.failed) == (0, {})
    assert {"continue": "~/.continue/.env", "goose": "goose configure"}[client] in done.cures["secret SHELF_KEY"]
    assert done.cures["start"] == "Set it in this terminal to check the start."
    if client == "goose":
        tried = person.doctor(client, env={"SHELF_KEY": "x"})
        assert (tried.code, tried.failed) == (0, {})
        assert set(ERAS) <= {check["check"] for check in tried.server["checks"]}


def test_a_tool_file_that_cannot_be_read_is_not_called_settings(person: Person) -> None:
    person.tools.write_text("def broken(:\n")
    person.has(sys.executable, "-m", "mcp_bridge", "serve", person.tools)
    assert person.doctor("gemini-cli").failed[ERAS[0]].startswith("a tool file cannot be imported")


def test_an_entry_is_started_in_the_folder_that_it_names(person: Person) -> None:
    place = person.home / "elsewhere"
    place.mkdir()
    person.has(*person.light(), cwd=str(place))
    done = person.doctor("gemini-cli", "--name", "shelf", "--call", "where")
    assert done.code == 0
    assert done.server["folder"] == str(place)
    assert str(place) in next(check["detail"] for check in done.server["checks"] if check["check"].startswith("call"))


def test_all_without_any_bridge_is_json_too(person: Person) -> None:
    done = person.doctor("all")
    assert done.code == 2
    assert json.loads(done.out)["servers"] == []
