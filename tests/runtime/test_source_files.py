"""The imports of a Python file from its folder are found without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge._runtime.source_files import contains_home, find_source_files


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / (name.replace("__in__", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_the_imports_of_imports_are_found(tmp_path: Path) -> None:
    write(tmp_path, a="import b\ndef f():\n    from c.d import e", b="import json, b", other="")
    write(tmp_path, c__in____init__="", c__in__d="import deep", deep="")
    files = find_source_files(tmp_path, [tmp_path / "a.py"])
    assert {path.name for path in files} == {"a.py", "b.py", "c", "deep.py"}
    assert {path.name for path in find_source_files(tmp_path, modules=["b", "missing"])} == {"b.py"}


def test_a_folder_without_an_init_file_is_not_found(tmp_path: Path) -> None:
    write(tmp_path, a="import documents", documents__in__letter="")
    assert [path.name for path in find_source_files(tmp_path, [tmp_path / "a.py"])] == ["a.py"]


def test_a_file_of_another_type_has_no_imports(tmp_path: Path) -> None:
    for number, text in enumerate([b"import b)", b"\xff\x00", b"(" * 100_000, b"import a.b.c, \n"]):
        path = tmp_path / f"file{number}.py"
        path.write_bytes(text)
        assert find_source_files(tmp_path, [path]) == (path,)


def test_the_home_folder_and_its_parents_contain_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert contains_home(tmp_path / "home")
    assert contains_home(tmp_path)
    assert not contains_home(tmp_path / "home" / "project")
    assert not contains_home(tmp_path / "other")
