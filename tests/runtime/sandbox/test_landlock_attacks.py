"""A program in a sandbox with Landlock attacks files. No private folder outlives its sandbox."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bridge._runtime import sandbox
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.sandbox import SandboxOptions
from tests.kits.sandbox.sandbox_kit import (
    MEMORY,
    attack,
    needs_landlock,
    run_command_in_sandbox,
)
from tests.kits.waiting import wait_until

pytestmark = needs_landlock


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A key in another folder."""
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    file = tmp_path / "home" / ".ssh" / "id_rsa"
    file.write_text("a key")
    file.chmod(0o600)
    os.utime(file, (1, 1))
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder" / "write").mkdir(parents=True)
    return tmp_path / "folder"


def test_files_outside_cannot_be_read_in_any_way(secret: Path, folder: Path) -> None:
    script = """
path, folder = sys.argv[1:]
os.chdir(folder)
outcomes["read"] = attempt(open, path)
outcomes["list"] = attempt(os.listdir, os.path.dirname(path))
outcomes["execute"] = attempt(os.execv, path, ["x"])
outcomes["relative"] = attempt(open, os.path.relpath(path))
os.symlink(path, "soft")
outcomes["soft link"] = attempt(open, "soft")
outcomes["hard link"] = attempt(os.link, path, "hard")
outcomes["move"] = attempt(os.rename, path, "moved")
outcomes["root"] = attempt(open, f"/proc/self/root{path}")
outcomes["descriptor"] = attempt(lambda: os.open(f"/proc/self/fd/{os.open(path, os.O_PATH)}", os.O_RDONLY))
outcomes["handle"] = attempt(open, f"/proc/1/root{path}")
outcomes["attributes"] = attempt(os.listxattr, path)
outcomes["attribute"] = attempt(os.getxattr, path, "user.x")
outcomes["attribute of a descriptor"] = attempt(os.getxattr, os.open(path, os.O_PATH), "user.x")
"""
    outcomes = attack(folder, script, secret, folder / "write", write=(str(folder / "write"),))
    assert {outcome for outcome in outcomes.values() if outcome not in ("EACCES", "EXDEV", "ENOTSUP")} == set()


def test_files_outside_cannot_be_changed_in_any_way(secret: Path, folder: Path) -> None:
    script = """
path, folder = sys.argv[1:]
outcomes["write"] = attempt(open, path, "a")
outcomes["truncate"] = attempt(os.truncate, path, 0)
outcomes["delete"] = attempt(os.unlink, path)
outcomes["create"] = attempt(open, f"{path}.new", "w")
outcomes["folder"] = attempt(os.mkdir, f"{path}.new")
outcomes["replace"] = attempt(os.rename, __file__ if "__file__" in globals() else tempfile.mkstemp()[1], path)
os.chmod(path, 0o777)
os.utime(path, (5, 5))
outcomes["private mode"] = attempt(os.chmod, path, 0o700)
outcomes["special mode"] = attempt(os.chmod, path, 0o4777)
outcomes["owner"] = attempt(os.chown, path, os.getuid(), os.getgid())
outcomes["times"] = attempt(os.utime, path)
outcomes["attribute"] = attempt(os.setxattr, path, "user.x", b"")
outcomes["open for ioctl"] = attempt(os.open, path, 3)
outcomes["mode of a path"] = attempt(lambda: os.fchmod(os.open(path, os.O_PATH), 0o700))
outcomes["device"] = attempt(os.mknod, f"{folder}/device", 0o20666, os.makedev(1, 3))
outcomes["socket"] = attempt(os.mknod, f"{folder}/socket", 0o140666)
"""
    outcomes = attack(folder, script, secret, folder / "write", write=(str(folder / "write"),))
    assert {name: outcome for name, outcome in outcomes.items() if outcome.startswith("success")} == {}
    assert secret.read_text() == "a key"
    status = secret.stat()
    assert (status.st_mode & 0o777, status.st_mtime) == (0o600, 1)


def test_files_that_can_be_read_cannot_be_changed(folder: Path) -> None:
    (folder / "file").write_text("data")
    mode = (folder / "file").stat().st_mode & 0o777
    script = """
path = sys.argv[1]
outcomes["read"] = attempt(open(path).read)
outcomes["write"] = attempt(open, path, "r+")
os.fchmod(os.open(path, os.O_RDONLY), 0o777)
outcomes["mode"] = attempt(os.fchmod, os.open(path, os.O_RDONLY), 0o700)
outcomes["beside"] = attempt(open, f"{path}.new", "w")
"""
    outcomes = attack(folder, script, folder / "file", read=(str(folder / "file"),))
    assert outcomes == {"read": "success: 'data'", "write": "EACCES", "mode": "EPERM", "beside": "EACCES"}
    assert (folder / "file").stat().st_mode & 0o777 == mode


def test_writable_folders_and_the_temporary_folder_are_usable(folder: Path) -> None:
    script = """
for place in (sys.argv[1], tempfile.gettempdir(), os.path.expanduser("~")):
    os.makedirs(f"{place}/a/b")
    with open(f"{place}/a/file", "w") as file:
        file.write("text")
    os.utime(os.open(f"{place}/a/file", os.O_WRONLY), (5, 5))
    os.rename(f"{place}/a/file", f"{place}/a/b/file")
    os.symlink("b", f"{place}/a/link")
    os.mkfifo(f"{place}/a/fifo")
    os.umask(0o777)
    os.mkdir(f"{place}/unreadable")
    os.umask(0)
    subprocess.run(["rm", "-r", f"{place}/a"], check=True)
    os.rmdir(f"{place}/unreadable")
    os.umask(0o777)
    os.mkdir(f"{place}/left")
    os.umask(0)
    if place != sys.argv[1]:
        os.rmdir(f"{place}/left")
outcomes["folder"] = tempfile.gettempdir()
outcomes["/tmp"] = attempt(os.listdir, "/tmp")
"""
    outcomes = attack(folder, script, folder / "write", write=(str(folder / "write"),))
    assert outcomes["/tmp"] == "EACCES"
    assert not Path(outcomes["folder"]).exists()
    assert [path.name for path in (folder / "write").iterdir()] == ["left"]


def test_files_can_be_copied(folder: Path) -> None:
    (folder / "tree" / "inner").mkdir(parents=True)
    (folder / "tree" / "inner" / "file").write_text("data")
    script = """
import pathlib, shutil
source, folder = map(pathlib.Path, sys.argv[1:])
shutil.copytree(source, folder / "copy")
shutil.copy2(source / "inner" / "file", folder / "file")
subprocess.run(["cp", "-r", folder / "file", folder / "second"], check=True)
subprocess.run(["cp", "-a", folder / "file", folder / "third"], check=True)
subprocess.run(["ls", "-la", source], check=True, stdout=subprocess.DEVNULL)
subprocess.run(["tar", "--no-same-owner", "-cf", folder / "archive", "-C", source, "."], check=True)
(folder / "unpacked").mkdir()
subprocess.run(["tar", "--no-same-owner", "-xf", folder / "archive", "-C", folder / "unpacked"], check=True)
(folder / "touched").touch()
subprocess.run(["touch", folder / "touched", folder / "other"], check=True)
"""
    write = folder / "write"
    attack(folder, script, folder / "tree", write, read=(str(folder / "tree"),), write=(str(write),))
    for name in ("copy/inner/file", "file", "second", "third", "unpacked/inner/file"):
        assert (write / name).read_text() == "data"
    assert (write / "touched").exists()


def test_the_temporary_folder_is_removed_whatever_is_in_it(folder: Path) -> None:
    script = """
outcomes["folder"] = tempfile.gettempdir()
os.chdir(tempfile.gettempdir())
for _ in range(2000):
    os.mkdir("d", 0o300)
    os.chdir("d")
"""
    outcomes = attack(folder, script)
    assert not Path(outcomes["folder"]).exists()


def test_the_temporary_folder_is_removed_even_if_the_process_group_is_killed(folder: Path) -> None:
    script = """
for number in range(20000):
    open(f"{tempfile.gettempdir()}/{number}", "w").close()
print(tempfile.gettempdir(), flush=True)
"""
    options = SandboxOptions(type="landlock")
    program = [sys.executable, "-I", "-S", "-c", f"import tempfile\n{script}"]
    command = system.wrap_command(sandbox.build_command(program, options, str(folder), MEMORY))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        private_folder = Path(process.stdout.readline().decode().strip())
        # Wait for the beginning of the removal, or the end of a fast one.
        wait_until(lambda: count_entries(private_folder) < 20000)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    wait_until(lambda: not private_folder.exists())


def count_entries(path: Path) -> int:
    """Return the number of files in a folder, which may not exist."""
    try:
        return len(os.listdir(path))
    except FileNotFoundError:
        return 0


def test_a_sandbox_in_a_sandbox_works(secret: Path, folder: Path) -> None:
    options = SandboxOptions(type="landlock", read=(str(folder),))
    inner = sandbox.build_command(["cat", str(folder / "file"), str(secret)], options, str(folder), MEMORY)
    (folder / "file").write_text("data")
    result = run_command_in_sandbox(folder, system.wrap_command(inner), read=(str(secret.parent), str(folder)))
    assert result.stdout == "data"
    assert "Permission denied" in result.stderr


@pytest.fixture(autouse=True)
def no_folder_is_left() -> Iterator[None]:
    """Assert that no private folder outlives its sandbox."""
    before = set(Path("/tmp").glob("mcp-bridge-????????????????"))
    yield
    assert set(Path("/tmp").glob("mcp-bridge-????????????????")) - before == set()
