"""The lines written by `export dockerfile` work, executed here without a container builder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mcp_bridge._version import __version__
from tests.kits.packaging.packaging_kit import (
    KEY,
    PACKAGED_FILES,
    call_tool,
    get_clean_environment,
    make_venv,
    run_in_process,
)

KNOWN = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}


def parse_dockerfile(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments."""
    result = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, arguments) for word, arguments in result]


def list_words(text: str, instruction: str) -> list[list[str]]:
    """Return the words of all instructions of a kind in the list form."""
    return [
        json.loads(arguments)
        for word, arguments in parse_dockerfile(text)
        if word == instruction and arguments.startswith("[")
    ]


def run_install(command: list[str]) -> None:
    """Run an instruction that installs; the dependencies are installed already."""
    env = get_clean_environment(PIP_NO_DEPS="1", PIP_NO_INDEX="1")
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr


def export_dockerfile(folder: Path, *args: str | Path) -> str:
    result = run_in_process(folder, "export", "dockerfile", "--include", "data/*.json", *args)
    assert result.code == 0, result.err
    return result.out


def test_it_is_of_a_pinned_base_and_for_a_user_without_rights(project_folder: Path) -> None:
    result = parse_dockerfile(export_dockerfile(project_folder))
    assert {word for word, _ in result} <= KNOWN
    assert result[0] == ("FROM", "python:3.13-slim-bookworm")
    order = [word for word, _ in result]
    assert order.index("USER") > max(index for index, word in enumerate(order) if word in ("RUN", "COPY"))


def test_a_dockerfile_copies_only_the_needed_files(project_folder: Path) -> None:
    copied = [name for names in list_words(export_dockerfile(project_folder), "COPY") for name in names[:-1]]
    assert sorted(copied) == sorted([*PACKAGED_FILES, f"mcp_tool_bridge-{__version__}-py3-none-any.whl"])


def test_a_dockerfile_installs_this_release_from_an_index(project_folder: Path) -> None:
    (pip,) = list_words(export_dockerfile(project_folder, "--from-index", "--needs", "six"), "RUN")
    assert pip[:4] == ["python", "-m", "pip", "install"]
    assert pip[-2].startswith(f"mcp-tool-bridge>={__version__},<")
    assert pip[-1] == "six"


def test_no_secret_is_in_it(project_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELF_KEY", KEY)
    text = export_dockerfile(project_folder)
    assert KEY not in text
    assert "# docker run --rm -i -e SHELF_KEY my-shelf" in text.splitlines()


@pytest.mark.parametrize("is_given", [True, False])
async def test_the_steps_of_a_dockerfile_give_a_working_server(
    project_folder: Path, tmp_path: Path, wheel: Path, is_given: bool
) -> None:
    if is_given:
        shutil.copy(wheel, project_folder)
    text = export_dockerfile(project_folder, *(("--wheel", project_folder / wheel.name) if is_given else ()))
    image = tmp_path / "image"
    (image / "tmp").mkdir(parents=True)
    python = make_venv(tmp_path / "venv")
    for *names, target in list_words(text, "COPY"):
        destination = image / (target.lstrip("/") if target.startswith("/") else Path("app", target))
        destination.mkdir(parents=True, exist_ok=True) if target.endswith("/") else None
        for name in names:
            shutil.copy(project_folder / name, destination)
    (install,) = list_words(text, "RUN")
    run_install([str(python), *(word.replace("/tmp/", f"{image}/tmp/") for word in install[1:])])
    ((program, *args),) = list_words(text, "ENTRYPOINT")
    started = [word.replace("/app/", f"{image}/app/") for word in args]
    answer = await call_tool(
        str(python.parent / program),
        started,
        get_clean_environment(SHELF_KEY=KEY, PREFIX="my"),
        "my__look",
        {"item": "pears"},
    )
    assert answer == "3 pears."


def test_an_image_for_http_requires_a_token_and_has_a_health_check(project_folder: Path) -> None:
    text = export_dockerfile(project_folder, "--http")
    ((*_, address, option, name),) = list_words(text, "ENTRYPOINT")
    assert (address, option, name) == ("0.0.0.0:8808", "--token-env", "MCP_BRIDGE_TOKEN")
    assert ("EXPOSE", "8808") in parse_dockerfile(text)
    assert "-p 127.0.0.1:8808:8808 -e SHELF_KEY -e MCP_BRIDGE_TOKEN" in text


def test_over_http_the_token_is_that_of_the_settings(project_folder: Path) -> None:
    with (project_folder / "mcp-bridge.yaml").open("a") as file:
        file.write("http: {token_env: SHELF_TOKEN}\n")
    ((*_, name),) = list_words(export_dockerfile(project_folder, "--http"), "ENTRYPOINT")
    assert name == "SHELF_TOKEN"


def test_the_health_check_of_an_image_succeeds_for_its_server(project_folder: Path) -> None:
    text = export_dockerfile(project_folder, "--http")
    ((_, *args),) = list_words(text, "ENTRYPOINT")
    (health,) = (
        json.loads(arguments.removeprefix("CMD "))
        for word, arguments in parse_dockerfile(text)
        if word == "HEALTHCHECK"
    )
    command = [word.replace("/app/", f"{project_folder}/").replace("0.0.0.0:8808", "0.0.0.0:0") for word in args]
    env = get_clean_environment(SHELF_KEY=KEY, MCP_BRIDGE_TOKEN="a-token-of-the-tests-that-is-long-enough")
    server = subprocess.Popen(
        [os.sys.executable, "-m", "mcp_bridge", *command],
        env=env,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        announced = next(line for line in server.stderr if "on http://" in line)
        port = announced.split("on http://")[1].split("/")[0].rpartition(":")[2]
        check = [os.sys.executable, *(word.replace(":8808/", f":{port}/") for word in health[1:])]
        assert subprocess.run(check, timeout=60).returncode == 0
    finally:
        server.kill()
        server.communicate()


def test_a_wheel_outside_the_folder_cannot_be_copied_from_there(project_folder: Path, wheel: Path) -> None:
    result = run_in_process(project_folder, "export", "dockerfile", "--wheel", wheel)
    assert result.code == 2
    assert "--wheel: the wheel is outside the folder of the settings. Copy it into" in result.err


@pytest.mark.parametrize(("name", "copied"), [("a[1].py", "a[[]1].py"), ("it's $b.py", "it\\'s \\$b.py")])
def test_names_are_escaped_for_copy(tmp_path: Path, name: str, copied: str) -> None:
    (tmp_path / name).write_text("")
    result = run_in_process(tmp_path, "export", "dockerfile", name, "--from-index")
    assert list_words(result.out, "COPY") == [[copied, "./"]]


def test_a_dockerfile_is_written_to_the_chosen_path(project_folder: Path) -> None:
    result = run_in_process(project_folder, "export", "dockerfile", "--output", "Dockerfile")
    assert (result.code, result.out) == (0, "")
    assert (project_folder / "Dockerfile").read_text().endswith("\n")
