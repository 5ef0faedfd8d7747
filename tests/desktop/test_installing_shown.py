"""What is shown of a client's file is the entry alone, and what is written of secrets are references."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_bridge._desktop.table import CLIENTS
from tests.kits.clients.clients_running import COMMAND, Person, client_of, golden, person

SECRET = "a-value-of-which-nobody-may-see-anything"
FOREIGN = "not-to-be-shown"


@pytest.fixture
def who(tmp_path: Path) -> Person:
    return person(tmp_path)


@pytest.fixture
def secretive(tmp_path: Path) -> Person:
    """A person whose settings need a variable."""
    machine = person(tmp_path, SHELF_KEY=SECRET)
    machine.settings.write_text(
        "name: shelf\nstate: {keys: '${SHELF_KEY}'}\nsources:\n  - {type: python, path: tools.py}\n"
    )
    return machine


@pytest.mark.parametrize("case", CLIENTS)
def test_secrets_are_references_and_their_values_are_nowhere(case: str, secretive: Person) -> None:
    client, scope = client_of(case)
    answers = [
        secretive.run("install", client, secretive.settings, "--scope", scope, *more)
        for more in (["--dry-run"], ["--print"], [], ["--json"])
    ]
    text = secretive.path(case).read_text()
    output = "".join(answer.stdout + answer.stderr for answer in answers)
    refers = client not in {"claude-desktop", "lm-studio", "zed"}
    assert ("SHELF_KEY" in text) == refers
    assert "SHELF_KEY" in output
    everything = [path.read_bytes() for path in secretive.home.rglob("*") if path.is_file()]
    assert SECRET not in output + text
    assert not any(SECRET.encode() in content for content in everything)


def test_settings_are_installed_also_where_their_variables_are_not_set(secretive: Person) -> None:
    secretive.environ.clear()
    result = secretive.run("install", "claude-code", secretive.settings)
    assert "the settings were not fully checked, because these variables are not set: SHELF_KEY" in result.stderr
    assert '"SHELF_KEY": "${SHELF_KEY}"' in secretive.path("claude-code").read_text()


@pytest.mark.parametrize(("name", "advice"), [("claude-desktop", "export mcpb"), ("zed", "login shell")])
def test_for_a_client_without_references_the_alternative_is_shown(name: str, advice: str, secretive: Person) -> None:
    result = secretive.run("install", name, secretive.settings)
    assert "SHELF_KEY" in result.stderr
    assert advice in result.stderr


@pytest.mark.parametrize(
    ("name", "option"), [("claude-desktop", "--print"), ("lm-studio", "--print"), ("lm-studio", "--link")]
)
def test_a_dry_run_warns_of_missing_secrets_too(name: str, option: str, secretive: Person) -> None:
    result = secretive.run("install", name, secretive.settings, option)
    assert "SHELF_KEY. " in result.stderr
    assert "will not start" in result.stderr
    assert "SHELF_KEY" in secretive.json("install", name, secretive.settings, option)["notes"][0]


@pytest.mark.parametrize("case", ["cursor", "cursor-project", "zed", "goose", "codex", "opencode", "claude-code"])
def test_a_dry_run_shows_the_edit_and_no_neighbour(case: str, who: Person) -> None:
    client, scope = client_of(case)
    before = golden(case, "before", who)
    path = who.place(case, before)
    files = list(who.files())
    result = who.run("install", client, who.settings, "--scope", scope, "--dry-run")
    assert f"+++ {path}" in result.stdout
    assert str(COMMAND) in result.stdout
    for word in (FOREIGN, "npx", "Authorization", "https://"):
        assert word not in result.stdout + result.stderr
    assert path.read_bytes() == before
    assert list(who.files()) == files
    who.run("install", client, who.settings, "--scope", scope)
    result = who.run("uninstall", client, "--scope", scope, "--dry-run")
    assert str(COMMAND) in result.stdout
    assert FOREIGN not in result.stdout + result.stderr
    assert path.read_bytes() == golden(case, "after", who)


def test_a_dry_run_shows_no_secret_that_the_user_added_to_the_entry(who: Person) -> None:
    path = who.path("cursor")
    who.run("install", "cursor", who.settings)
    data = json.loads(path.read_text())
    data["mcpServers"]["shelf"] |= {"env": {"A": FOREIGN}, "command": "/old/bin/mcp-bridge"}
    path.write_text(json.dumps(data, indent=2))
    update = who.run("install", "cursor", who.settings, "--dry-run")
    assert "would update" in update.stderr
    removal = who.run("uninstall", "cursor", "--dry-run")
    assert "/old/bin/mcp-bridge" in removal.stdout
    assert FOREIGN not in update.stdout + removal.stdout
    other = who.project / "tools.py"
    replacement = who.run("install", "cursor", other, "--name", "shelf", "--force", "--dry-run", "--json")
    assert FOREIGN not in replacement.stdout


@pytest.mark.parametrize("case", ["cursor", "claude-code-local", "zed", "goose", "codex", "opencode", "continue"])
def test_the_snippet_is_the_content_of_a_new_file(case: str, who: Person) -> None:
    client, scope = client_of(case)
    output = who.run("install", client, who.settings, "--scope", scope, "--print")
    assert str(who.path(case)) in output.stderr
    assert not who.path(case).exists()
    who.run("install", client, who.settings, "--scope", scope)
    assert who.path(case).read_text().endswith(output.stdout)
