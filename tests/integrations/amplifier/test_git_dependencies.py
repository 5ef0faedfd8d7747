"""What modules from git need: what they declare, what is installed already, and what pip adds beside them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._integrations.amplifier.source import checkouts
from mcp_bridge._integrations.amplifier.source.checkouts import (
    check_python,
    describe_clashes,
    get_packages_folder,
    has_same_versions,
    install,
    list_installed,
    read_requirements,
)
from mcp_bridge._runtime.requirements import find_missing
from mcp_bridge.amplifier import ModuleLoadError
from tests.kits.amplifier.amplifier_modules import written
from tests.kits.amplifier.git_repositories import only_from, wheel

URI = "git+https://host/x@main"


def declared(folder: Path, *lines: str, more: str = "") -> list[Any]:
    """What a module with these dependencies needs here."""
    project = f'[project]\nname = "x"\nversion = "1"\ndependencies = {list(lines)}\n{more}'
    return read_requirements(written(folder, {"pyproject.toml": project}), URI)


def test_dependencies_are_those_of_pyproject_that_hold_here(tmp_path: Path) -> None:
    assert read_requirements(tmp_path, URI) == []
    assert read_requirements(written(tmp_path / "poetry", {"pyproject.toml": "[tool.poetry]\nname = 'x'\n"}), URI) == []
    assert declared(tmp_path) == []
    found = declared(tmp_path, "one>=1,<2", "two; python_version < '3'", "three; python_version > '3'", "four[x]")
    assert [one.name for one in found] == ["one", "three", "four"]


@pytest.mark.parametrize("line", ["amplifier-core", "amplifier_core>=1", "Amplifier.Core @ git+https://host/core@main"])
def test_amplifiers_core_is_nothing_that_is_installed_for_a_module(line: str, tmp_path: Path) -> None:
    assert declared(tmp_path, line) == []


def both(folder: Path) -> None:
    """Look at all that a module's pyproject.toml says."""
    read_requirements(folder, URI)
    check_python(folder, URI)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project", "cannot be read"),
        ("[project]\ndependencies = ['-r x']", "cannot be read"),
        ("[project]\ndependencies = ['--index-url=x']", "cannot be read"),
        ("[project]\ndependencies = 7", "cannot be read"),
        ("[project]\ndependencies = [7]", "cannot be read"),
        ("project = 7", "cannot be read"),
        ("[project]\nrequires-python = 'new'", "cannot be read"),
        ("[project]\nrequires-python = '>=99'", "is for Python >=99, and the bridge runs on 3"),
    ],
)
def test_a_pyproject_that_cannot_be_followed_is_told(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ModuleLoadError, match=f"{URI.replace('+', '.')}.* {said}"):
        both(written(tmp_path, {"pyproject.toml": text}))


def test_what_is_installed_is_not_missing_and_its_version_may_clash(tmp_path: Path) -> None:
    found = declared(tmp_path, "pytest", "PyTest>=1", "pytest<1", "no-such-thing>=1")
    assert [str(one) for one in find_missing(found, sys.path)] == ["no-such-thing>=1"]
    assert describe_clashes(found, sys.path) == [f"pytest<1, where {version('pytest')} is installed"]


def test_what_an_extra_needs_is_needed(tmp_path: Path) -> None:
    needs = ["no-such-thing; extra == 'more'", "other-thing; extra == 'other'", "plain-thing"]
    site = tmp_path / "site"
    written(site, {"mine-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n"})
    with (site / "mine-1.0.dist-info" / "METADATA").open("a") as file:
        file.writelines(f"Requires-Dist: {one}\n" for one in needs)
    found = declared(tmp_path, "mine", "mine[more]", "mine[none]")
    assert [str(one) for one in find_missing(found, [str(site)])] == ["mine[more]"]


def test_pip_installs_wheels_but_amplifiers_core_into_a_folder_without_running_or_compiling_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_from(tmp_path / "wheels", monkeypatch)
    wheel(
        tmp_path / "wheels",
        "needed_words",
        "1.5",
        {"needed_words.py": "HELLO = 1"},
        needs=["deeper-words", "amplifier-core"],
    )
    wheel(tmp_path / "wheels", "deeper_words", "2.0", {"deeper_words/__init__.py": ""})
    wheel(tmp_path / "wheels", "amplifier_core", "7.0", {"amplifier_core/__init__.py": ""})
    monkeypatch.setattr(checkouts, "_list_environment", list)
    for name in ("PIP_TARGET", "PIP_PREFIX"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.chdir(written(tmp_path / "here", {"pip.py": "raise SystemExit('not pip')"}))
    site = tmp_path / "room" / "site"
    install(declared(tmp_path, "needed-words>=1"), site, URI)
    assert list_installed(site) == ["deeper_words==2.0", "needed_words==1.5"]
    assert not list(site.glob("amplifier_core*"))
    assert (site / "needed_words.py").read_text() == "HELLO = 1"
    assert not list(site.rglob("*.pyc"))
    assert not (tmp_path / "elsewhere").exists()


def test_versions_that_are_known_are_installed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_from(tmp_path / "wheels", monkeypatch)
    for number in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "needed_words", number, {"needed_words.py": ""})
    known = ["needed_words==1.0", "unused==7"]
    install(declared(tmp_path, "needed-words"), tmp_path / "site", URI, known)
    assert list_installed(tmp_path / "site") == ["needed_words==1.0"]
    assert has_same_versions(list_installed(tmp_path / "site"), known)
    assert not has_same_versions(["needed_words==2.0"], known)


def test_what_the_bridge_has_holds_for_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_from(tmp_path / "wheels", monkeypatch)
    wheel(tmp_path / "wheels", "needed_words", "1.0", {}, needs=["pytest>=9999"])
    wheel(tmp_path / "wheels", "pytest", "9999", {})
    with pytest.raises(ModuleLoadError, match=r"needs needed-words, which pip cannot install: .*onflict"):
        install(declared(tmp_path, "needed-words"), tmp_path / "site", URI)


def test_source_packages_and_urls_are_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_from(tmp_path / "wheels", monkeypatch)
    written(tmp_path / "wheels", {"needed-words-1.0.tar.gz": "x"})
    with pytest.raises(ModuleLoadError, match=r"needs needed-words, which pip cannot install: .*needed-words"):
        install(declared(tmp_path, "needed-words"), tmp_path / "site", URI)
    for url in ("git+https://host/words@main", "https://host/words.whl", "file:///words"):
        with pytest.raises(ModuleLoadError, match=r"which is not fetched\. Install it with the bridge"):
            install(declared(tmp_path, f"needed-words @ {url}"), tmp_path / "site", URI)


def test_without_pip_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleLoadError, match="needs 'needed-words>1', and there is no pip"):
        install(declared(tmp_path, "needed-words>1"), tmp_path / "site", URI)


def test_a_pip_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*args: Any, **options: Any) -> Any:
        raise subprocess.TimeoutExpired("pip", 1)

    monkeypatch.setattr(subprocess, "run", hangs)
    with pytest.raises(ModuleLoadError, match="pip took longer than 600 seconds for needed-words"):
        install(declared(tmp_path, "needed-words"), tmp_path / "site", URI)


def test_each_python_and_each_module_of_a_checkout_has_its_own(tmp_path: Path) -> None:
    places = {get_packages_folder(tmp_path, part) for part in ("", "a", "a/b", "a%2Fb", "top")}
    assert len(places) >= 4
    assert all(str(sys.implementation.cache_tag) in str(place.relative_to(tmp_path)) for place in places)
    assert all(os.sep not in place.name for place in places)
