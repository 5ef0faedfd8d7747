"""Modules with an import of a missing package: the error has the command for its installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge._integrations.amplifier.errors import ModuleLoadError
from mcp_bridge._integrations.amplifier.module_import import import_module_at
from tests.kits.amplifier.amplifier_modules import install_distribution, write_files
from tests.kits.amplifier.amplifier_plans import ServedPlan

PROJECT = """
[project]
name = "amplifier-module-{name}"
dependencies = ["lost-soup4>=4.12", "anyio>=4", "only-elsewhere>=1; python_version < '3'"]
"""
SUGGESTED = " -m pip install 'lost-soup4>=4.12'"


def load(path: Path, module_id: str) -> str:
    """Return the error of a failing import."""
    with pytest.raises(ModuleLoadError) as caught:
        import_module_at(path, module_id)
    return str(caught.value)


def test_the_error_has_the_missing_requirement_that_the_module_declares(tmp_path: Path) -> None:
    name = "amplifier_module_declares"
    write_files(tmp_path, {"pyproject.toml": PROJECT, f"{name}/__init__.py": "import lostsoup\n"})
    problem = load(tmp_path, "declares")
    assert problem.endswith(SUGGESTED)
    assert f"'lostsoup'. {tmp_path / 'pyproject.toml'} requires what is not installed. Run: " in problem


def test_the_requirements_are_those_of_the_file_with_the_import(tmp_path: Path) -> None:
    helper = {"pyproject.toml": PROJECT, "lost_helper.py": "import lostsoup\n"}
    write_files(tmp_path / "helper", helper)
    module = f"import sys\nsys.path.append({str(tmp_path / 'helper')!r})\nimport lost_helper\n"
    write_files(tmp_path / "own", {"pyproject.toml": "[project]\nname = 'own'\n", "uses_lost_helper.py": module})
    assert load(tmp_path / "own" / "uses_lost_helper.py", "uses").endswith(SUGGESTED)


def test_an_installed_module_declares_its_requirements_in_its_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "lib" / "site-packages"
    files = {"lost_installed/__init__.py": "import lostsoup\n"}
    install_distribution(site, monkeypatch, {"lost-installed": "lost_installed:mount"}, files, "lost-installed")
    info = site / "lost_installed-1.0.dist-info"
    (info / "top_level.txt").write_text("lost_installed\n")
    with (info / "METADATA").open("a") as metadata:
        metadata.write("Requires-Dist: lost-soup4>=4.12\nRequires-Dist: more-soup; extra == 'more'\n")
    assert load(site / "lost_installed", "lost-installed").endswith(SUGGESTED)


@pytest.mark.parametrize(
    ("name", "code", "end"),
    [
        ("undeclared", "import lostsoup", "Install the package that provides it, or correct the import"),
        ("part", "import anyio.lostsoup", "No module named 'anyio.lostsoup'"),
        ("foundation", "import amplifier_foundation", "git+https://github.com/microsoft/amplifier-foundation"),
    ],
)
def test_the_name_of_the_import_is_never_suggested(name: str, code: str, end: str, tmp_path: Path) -> None:
    module = f"lost_by_{name}.py"
    write_files(tmp_path, {"pyproject.toml": "[project]\nname = 'x'\n", module: f"{code}\n"})
    assert load(tmp_path / module, name).endswith(end)


def test_an_incompatible_amplifier_core_is_not_reported_as_missing(tmp_path: Path) -> None:
    write_files(tmp_path, {"newer_core.py": "from amplifier_core import NameOfTheFuture\n"})
    assert "cannot import name 'NameOfTheFuture' from 'amplifier_core'" in load(tmp_path / "newer_core.py", "newer")


WHEN = {
    "mounted": "async def mount(coordinator, config):\n    import lostsoup\n",
    "ready": "async def mount(coordinator, config):\n    return lambda: None\n\n"
    "async def on_session_ready(coordinator):\n    import lostsoup\n",
}


@pytest.mark.parametrize("when", WHEN)
async def test_an_import_that_fails_later_has_the_command_too(when: str, tmp_path: Path) -> None:
    server = ServedPlan(write_files(tmp_path, {"pyproject.toml": PROJECT}), {f"lost_when_{when}": WHEN[when]})
    with pytest.raises(Exception, match="lost-soup4"):
        async with server.run_bridge():
            raise RuntimeError("; ".join(server.problems))
