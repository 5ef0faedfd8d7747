"""A client whose configuration is a script gets a line to paste. The script is not read, edited or removed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kits.clients.clients_running import COMMAND, ClientHome

SCRIPT = b"mcp add files --command npx  # mine\noption debug true\n"
PRINT_WORDS = 'mcp() { printf "%s\\0" "$@"; }\n'
"""A definition of Crush's command `mcp` for Bash, which prints its arguments."""


@pytest.fixture
def script(user: ClientHome) -> Path:
    path = user.home / ".config/crush/crushrc"
    path.parent.mkdir(parents=True)
    path.write_bytes(SCRIPT)
    return path


def run_line(line: str, **environ: str) -> list[str]:
    """Return the arguments that Bash passes to Crush's command."""
    bash = shutil.which("bash")
    assert bash is not None
    process = subprocess.run(
        [bash, "-c", PRINT_WORDS + line], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    return process.stdout.split("\0")[:-1]


def test_the_line_for_the_script_is_printed_and_nothing_is_installed(script: Path, user: ClientHome) -> None:
    result = user.run("install", "crush", user.settings, check=1)
    assert f"{script}: a script, which mcp-bridge neither reads nor edits" in result.stderr
    assert f"Add this to {script} yourself:" in result.stderr
    assert result.stdout == f"mcp add shelf --type stdio --command {COMMAND} --args serve --args {user.settings}\n"
    assert script.read_bytes() == SCRIPT


def test_printing_alone_succeeds_also_without_a_script(user: ClientHome) -> None:
    result = user.run("install", "crush", user.settings, "--print", "--scope", "project")
    assert result.stdout.startswith("mcp add shelf ")
    assert str(user.project / ".crushrc") in result.stderr
    assert not (user.project / ".crushrc").exists()


def test_bash_reads_the_same_words_and_the_variables_from_its_environment(user: ClientHome) -> None:
    settings = user.project / 'it\'s "a" & `b`.yaml'
    settings.write_bytes(user.settings.read_bytes())
    line = user.run("install", "crush", settings, "--env", "KEY", "--env", 'MODE=a `b` "c"', "--print").stdout
    words = run_line(line, KEY='a "secret" $(value)')
    assert words[words.index("serve") + 2] == str(settings)
    options = words[words.index("--env") :]
    assert options == ["--env", "KEY", 'a "secret" $(value)', "--env", "MODE", 'a `b` "c"']


def test_a_token_for_a_url_is_a_reference_in_a_header(user: ClientHome) -> None:
    words = ("install", "crush", "http://127.0.0.1:8808/mcp", "--name", "shelf", "--token-env", "SHELF_TOKEN")
    line = user.run(*words, "--print").stdout
    assert run_line(line, SHELF_TOKEN="secret") == [
        *("add", "shelf", "--type", "http", "--url", "http://127.0.0.1:8808/mcp"),
        *("--header", "Authorization", "Bearer secret"),
    ]


@pytest.mark.parametrize("words", [("uninstall", "crush"), ("doctor", "crush")])
def test_other_commands_report_that_it_is_a_script(words: tuple[str, ...], script: Path, user: ClientHome) -> None:
    result = user.run(*words, check=None)
    assert result.returncode != 0
    assert f"{script}" in result.stdout + result.stderr
    assert "neither reads nor edits" in result.stdout + result.stderr
    assert script.read_bytes() == SCRIPT


def test_the_list_of_clients_has_the_script_and_an_import_continues_without_it(script: Path, user: ClientHome) -> None:
    user.run("install", "cursor", user.settings)
    cursor = user.path("cursor")
    cursor.write_text(json.dumps({"mcpServers": {"files": {"command": "npx"}}}))
    listing = user.run("install").stdout
    assert f"user: {script}" in listing
    assert "neither reads nor edits" in listing
    assert "files" in user.run("import", "--out", "-", check=None).stdout
