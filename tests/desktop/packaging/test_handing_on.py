"""Exports contain the files needed by the sources, no secrets, and leave the project unchanged."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from mcp_bridge._version import __version__
from tests.kits.packaging.packaging_kit import KEY, run_in_new_process, run_in_process

SET = {"SHELF_KEY": KEY}
DATA = ("--include", "data/*.json")


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="there such names cannot be given")
def test_an_invalid_name_of_a_bundle_is_reported(project_folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(project_folder / "data") + b"/\xff.json")).write_text("1")
    result = run_in_process(project_folder, "export", "dockerfile", "--include", "data/*")
    assert result.code == 2
    assert "data/\\udcff.json: the file name is not valid UTF-8" in result.err


def test_a_link_to_an_excluded_file_is_never_packed(project_folder: Path) -> None:
    (project_folder / "data" / "more.json").symlink_to("../.env")
    result = run_in_process(project_folder, "export", "dockerfile", "--include", "data/more.json")
    assert result.code == 2
    assert "'more.json' is never packed" in result.err
    assert "more.json" not in run_in_process(project_folder, "export", "dockerfile", "--include", "data/*").out


def test_a_pattern_that_climbs_names_files_by_their_place_in_the_project(project_folder: Path) -> None:
    assert (
        '"data/stock.json"'
        in run_in_process(project_folder, "export", "dockerfile", "--include", "deep/../data/stock.json").out
    )
    (project_folder.parent / "outside.json").write_text("{}")
    result = run_in_process(project_folder, "export", "dockerfile", "--include", "../outside.json")
    assert result.code == 2
    assert "outside.json: outside the folder of the settings. Copy the file into the folder" in result.err


@pytest.mark.parametrize("words", [["dockerfile"], ["tools", "anthropic"]], ids=" ".join)
def test_no_file_of_the_project_is_overwritten(project_folder: Path, words: list[str]) -> None:
    (project_folder / "words.py").write_text("def describe(item, amount): return item\n")
    before = (project_folder / "tools.py").read_text()
    (project_folder / "link").symlink_to("tools.py")
    for output in ("tools.py", "link"):
        result = run_in_process(project_folder, "export", *words, "tools.py", "--output", output)
        assert result.code == 2
        assert f"{output}: --output: this is a file of the project, and would be overwritten" in result.err
    assert (project_folder / "tools.py").read_text() == before


def test_a_link_is_written_through(project_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project_folder / "Dockerfile").symlink_to(tmp_path / "elsewhere" / "Dockerfile")
    assert run_in_process(project_folder, "export", "dockerfile", "-o", "Dockerfile").code == 0
    assert (project_folder / "Dockerfile").is_symlink()
    assert os.listdir(tmp_path / "elsewhere") == ["Dockerfile"]


@pytest.mark.parametrize("name", ["SHELF_URL", "SHELF_WEB"])
def test_a_file_with_a_password_or_token_under_any_name_is_not_packed(project_folder: Path, name: str) -> None:
    value = {"SHELF_URL": "db://me:a-pass@host/x", "SHELF_WEB": 'a-"quoted"-token'}[name]
    settings = "http: {token_env: SHELF_WEB}\ninstructions: ${SHELF_URL:-none}\n"
    with (project_folder / "mcp-bridge.yaml").open("a") as file:
        file.write(settings.replace("instructions", "title"))
    text = (project_folder / "mcp-bridge.yaml").read_text().replace("title: The shelf\n", "")
    (project_folder / "mcp-bridge.yaml").write_text(text)
    (project_folder / "data" / "stock.json").write_text(json.dumps({"pears": 3, "said": value}))
    result = run_in_new_process(project_folder, "export", "mcpb", *DATA, env={**SET, name: value})
    assert result.code == 2
    assert "project/data/stock.json: this file contains the value of a secret variable" in result.err
    assert value not in result.err


@pytest.mark.parametrize("reference", ["env:SHELF_WEB", "file:ann.token"])
def test_named_tokens_keep_a_file_from_being_packed(project_folder: Path, reference: str) -> None:
    (project_folder / "ann.token").write_text("the-token-of-ann")
    (project_folder / "data" / "stock.json").write_text(json.dumps({"pears": 3, "said": "the-token-of-ann"}))
    with (project_folder / "mcp-bridge.yaml").open("a") as file:
        file.write(f"http: {{tokens: {{ann: '{reference}'}}}}\n")
    result = run_in_new_process(project_folder, "export", "mcpb", *DATA, env={**SET, "SHELF_WEB": "the-token-of-ann"})
    assert result.code == 2
    assert "project/data/stock.json: this file contains the value of a secret variable" in result.err


def test_the_keys_of_an_issuer_are_packed_with_the_extra_that_uses_them(project_folder: Path) -> None:
    (project_folder / "keys.json").write_text('{"keys": []}')
    with (project_folder / "mcp-bridge.yaml").open("a") as file:
        file.write("http: {jwt: {issuer: 'https://login.example', audience: a, jwks: keys.json}}\n")
    text = run_in_process(project_folder, "export", "dockerfile", "--from-index").out
    assert "keys.json" in text
    assert "mcp-tool-bridge[jwt]" in text


def test_a_server_with_redis_is_packed_with_the_extras_that_use_it(project_folder: Path) -> None:
    settings = project_folder / "mcp-bridge.yaml"
    text = settings.read_text().replace("state:\n", "state:\n  store: ${REDIS_URL:-redis://redis}\n")
    settings.write_text(f"{text}tasks: {{}}\n")
    assert "mcp-tool-bridge[redis,tasks]" in run_in_process(project_folder, "export", "dockerfile", "--from-index").out


def test_a_server_that_signs_in_is_packed_with_the_extra_for_oauth(project_folder: Path) -> None:
    settings = project_folder / "mcp-bridge.yaml"
    server = "  - {type: mcp, name: tickets, url: 'https://tickets.example/mcp', auth: oauth}\n"
    settings.write_text(settings.read_text().replace("sources:\n", f"sources:\n{server}", 1))
    assert "mcp-tool-bridge[oauth]" in run_in_process(project_folder, "export", "dockerfile", "--from-index").out


def test_a_secret_that_the_settings_have_a_default_for_is_named(project_folder: Path) -> None:
    with (project_folder / "mcp-bridge.yaml").open("a") as file:
        file.write("approvals: {audit: '${APPROVAL_KEY:-a-default}'}\n")
    result = run_in_process(project_folder, "export", "dockerfile")
    assert (
        "APPROVAL_KEY: its default is exported with the settings: use ${APPROVAL_KEY} without a default" in result.err
    )
    assert "a-default" not in result.out + result.err


def test_requirements_are_exported_whole_and_without_passwords(project_folder: Path) -> None:
    lines = [
        'six<1.17; python_version < "3.12"',
        'six>=1.17; python_version >= "3.12"',
        "mcp-tool-bridge[utcp]>=0.1",
        "mine @ git+https://me:a-pass@example.com/mine.git",
        "--index-url https://a-token@example.com/simple",
        "mine @ git+https://${A_TOKEN}@example.com/mine.git",
        "yours @ git+ssh://git@example.com/yours.git",
    ]
    (project_folder / "requirements.txt").write_text("\n".join(lines))
    result = run_in_process(
        project_folder, "export", "dockerfile", "--from-index", "--needs", "mcp-tool-bridge[amplifier]"
    )
    (install,) = (json.loads(line[4:]) for line in result.out.splitlines() if line.startswith("RUN ["))
    bridge, *requirements = install[install.index("--disable-pip-version-check") + 1 :]
    assert bridge.startswith(f"mcp-tool-bridge[amplifier,utcp]>={__version__},<")
    assert requirements == [lines[0], lines[1], lines[6]]
    assert "https://***@example.com/simple' is left out, as it is not portable" in result.err
    assert "a-pass" not in result.out + result.err
    assert "a-token" not in result.out + result.err


def test_a_wheel_is_depended_on_with_the_extras_that_are_required(tmp_path: Path, wheel: Path) -> None:
    (tmp_path / "tools.py").write_text('from mcp_bridge import tool\n\n\n@tool\ndef a() -> str:\n    """A."""\n')
    (tmp_path / "requirements.txt").write_text("mcp-tool-bridge[utcp]\n")
    result = run_in_new_process(tmp_path, "export", "mcpb", "--wheel", wheel, "-o", "b.mcpb")
    assert result.code == 0, result.err
    with ZipFile(tmp_path / "b.mcpb") as archive:
        document = tomllib.loads(archive.read("pyproject.toml").decode())
    assert document["project"]["dependencies"] == [f"mcp-tool-bridge[utcp]=={__version__}"]


def test_the_event_loop_of_the_settings_is_installed_with_the_bridge(project_folder: Path) -> None:
    settings = next(project_folder.glob("*.yaml"))
    settings.write_text(f"event_loop: uvloop\n{settings.read_text()}")
    assert "mcp-tool-bridge[uvloop]>=" in run_in_process(project_folder, "export", "dockerfile", "--from-index").out


def test_packages_that_come_with_the_bridge_are_no_matter_however_they_are_spelled(project_folder: Path) -> None:
    (project_folder / "words.py").write_text("import docstring_parser, ruamel.yaml, anyio, jsonschema_rs\n")
    assert "is imported" not in run_in_process(project_folder, "export", "dockerfile").err


def test_requirements_of_a_folder_of_tools_may_be_in_it(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "one.py").write_text("")
    (tmp_path / "many" / "requirements.txt").write_text("six\n")
    (tmp_path / "requirements.txt").write_text("of-something-else\n")
    text = run_in_process(tmp_path, "export", "dockerfile", "many").out
    assert '"six"' in text
    assert "of-something-else" not in text
