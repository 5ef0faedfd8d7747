"""A program in a sandbox replaces paths in its writable folders by links. The next sandbox does not follow them."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime import sandbox
from mcp_bridge._runtime.platform import system
from mcp_bridge._settings.sections import SandboxSettings
from tests.kits.constants import TIMEOUT
from tests.kits.sandbox.sandbox_kit import MEMORY, needs_bubblewrap, needs_landlock, on_both_mechanisms, run_in_sandbox


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of settings with paths in a writable folder, beside a secret."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("a key")
    (tmp_path / "settings" / "out" / "sub" / "deep").mkdir(parents=True)
    return tmp_path / "settings"


def run(mechanism: str, folder: Path, script: str, **settings: Any) -> str:
    """Run a script of the shell in a sandbox with these settings, and return its output."""
    options = SandboxSettings(type=mechanism, **settings).to_options(folder)
    options = anyio.run(sandbox.probe, options, str(folder), MEMORY)
    command = sandbox.build_command(["/bin/sh", "-c", script], options, str(folder), MEMORY)
    result = subprocess.run(
        system.wrap_command(command),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return result.stdout + result.stderr


@on_both_mechanisms
@pytest.mark.parametrize("inner", ["out/sub", "out/sub/deep"])
def test_a_writable_path_in_a_writable_folder_cannot_become_a_link(mechanism: str, inner: str, folder: Path) -> None:
    attack = f"mv out/sub out/old; mkdir -p out/sub; rmdir {inner}; ln -s {folder.parent}/secret {inner}"
    paths: dict[str, Sequence[str]] = {"write": ["out", inner]}
    assert run(mechanism, folder, f"echo text > {inner}/file && cat {inner}/file", **paths) == "text\n"
    run(mechanism, folder, attack, **paths)
    assert (folder / inner).is_symlink()
    run(mechanism, folder, f"cp {inner}/key out/copy; echo changed > {inner}/key", **paths)
    assert (folder.parent / "secret" / "key").read_text() == "a key"
    assert not (folder / "out" / "copy").exists() or not (folder / "out" / "copy").read_text()


@needs_bubblewrap
def test_a_readable_path_deep_in_a_writable_folder_is_rejected(folder: Path) -> None:
    with pytest.raises(SourceError, match="out/sub/deep: it is in the writable folder"):
        run("bubblewrap", folder, "true", write=["out"], read=["out/sub/deep"])
    with pytest.raises(SourceError, match="settings/out/sub: it is in the writable folder"):
        run("bubblewrap", folder / "out" / "sub", "true", write=["../.."])


@needs_bubblewrap
def test_a_readable_path_directly_in_a_writable_folder_cannot_become_a_link(folder: Path) -> None:
    paths: dict[str, Sequence[str]] = {"write": ["out", "out/sub/deep"], "read": ["out/sub"]}
    output = run("bubblewrap", folder, "mv out/sub out/old; touch out/sub/new; echo text > out/sub/deep/file", **paths)
    assert "busy" in output
    assert "Read-only" in output
    assert (folder / "out" / "sub" / "deep" / "file").read_text() == "text\n"
    assert not (folder / "out" / "sub").is_symlink()


@contextlib.contextmanager
def replace_private_folders(base: Path, target: Path) -> Iterator[None]:
    """Replace private folders by links again and again, as a program whose sandbox contains them can do."""
    has_ended = threading.Event()

    def replace() -> None:
        paths: set[Path] = set()
        while not has_ended.is_set():
            paths.update(base.glob("mcp-bridge-*"))
            for path in paths:
                with contextlib.suppress(OSError):
                    path.rmdir()
                with contextlib.suppress(OSError):
                    path.symlink_to(target)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


@needs_landlock
def test_a_private_folder_that_becomes_a_link_gives_no_access(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, secret = folder / "out", folder.parent / "secret"
    monkeypatch.setenv("TMPDIR", str(base))
    script = "import os; open(os.environ['TMPDIR'] + '/file', 'w'); print(open(os.environ['TMPDIR'] + '/key').read())"
    with replace_private_folders(base, secret):
        results = [run_in_sandbox(folder, script) for _ in range(20)]
    assert {result.stdout for result in results} == {""}
    assert any("was replaced by a link" in result.stderr for result in results)
    assert [path.name for path in secret.iterdir()] == ["key"]


@needs_landlock
def test_the_removal_of_a_private_folder_follows_no_link(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, secret = folder / "out", folder.parent / "secret"
    secret.chmod(0o500)
    monkeypatch.setenv("TMPDIR", str(base))
    with replace_private_folders(base, secret):
        for _ in range(10):
            run_in_sandbox(folder, "pass")
    assert secret.stat().st_mode & 0o777 == 0o500
