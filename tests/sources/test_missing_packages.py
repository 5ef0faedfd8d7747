"""Failed imports of the user's code: the error names the requirement declared by the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge import open_bridge
from mcp_bridge._contracts.errors import BridgeError
from tests.kits.amplifier.amplifier_modules import write_files

PROJECT = "[project]\nname = 'mine'\ndependencies = ['lost-soup4>=4.12', 'pydantic']\n"
DECLARED = {
    "pyproject.toml": {"pyproject.toml": PROJECT},
    "requirements.txt": {"requirements.txt": "# soups\npydantic\nlost-soup4>=4.12  # parsed by it\n-r more.txt\n"},
    "poetry": {"pyproject.toml": "[tool.poetry]\nname = 'mine'\n", "requirements.txt": "lost-soup4>=4.12\n"},
}
SOURCES = {
    "python": "{type: python, path: NAME.py}",
    "module": "{type: python, module: NAME}",
    "framework": "{type: framework, objects: ['NAME:tool']}",
    "xaibo": "{type: xaibo, provider: 'NAME:Provider'}",
    "plugin": "{type: 'NAME:Options'}",
}


async def get_problem(folder: Path, source: str) -> str:
    """Return the error of a bridge with a source in the file `NAME.py` of a folder as its only source."""
    (folder / "bridge.yaml").write_text(f"sources: [{source}]\n")
    try:
        async with open_bridge(folder / "bridge.yaml"):
            return ""
    except BridgeError as error:
        return str(error)


@pytest.mark.parametrize("source", SOURCES)
async def test_the_error_of_a_missing_package_has_the_declared_requirement(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"needs_lost_soup_for_{source}"
    write_files(tmp_path, {"pyproject.toml": PROJECT, f"{name}.py": "import lostsoup\n"})
    monkeypatch.syspath_prepend(str(tmp_path))
    problem = await get_problem(tmp_path, SOURCES[source].replace("NAME", name))
    assert "pip install 'lost-soup4>=4.12'" in problem
    assert "pip install lostsoup" not in problem


@pytest.mark.parametrize("place", DECLARED)
async def test_a_requirement_is_declared_in_the_project_or_in_the_folder_of_the_file(
    place: str, tmp_path: Path
) -> None:
    name = f"lost_soup_in_{place.partition('.')[0]}"
    write_files(tmp_path, {**DECLARED[place], f"{name}.py": "import lostsoup\n"})
    problem = await get_problem(tmp_path, f"{{type: python, path: {name}.py}}")
    assert problem.endswith("pip install 'lost-soup4>=4.12'")


async def test_a_password_in_a_requirement_is_not_shown(tmp_path: Path) -> None:
    requirement = "lost-soup4 @ git+https://me:hunter2@host.example/soup"
    write_files(tmp_path, {"requirements.txt": requirement, "lost_private_soup.py": "import lostsoup\n"})
    problem = await get_problem(tmp_path, "{type: python, path: lost_private_soup.py}")
    assert problem.endswith("pip install 'lost-soup4 @ git+https://***@host.example/soup'")
