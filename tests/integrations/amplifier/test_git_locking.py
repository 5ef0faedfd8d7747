"""Modules from git, from the lock file to a client: only the locked files run."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._integrations.amplifier.source import lock_file, resolver
from mcp_bridge._integrations.amplifier.source.git import Git
from mcp_bridge._integrations.amplifier.source.lock_file import LockEntry, LockFile
from mcp_bridge.amplifier import ModuleLoadError
from mcp_bridge.testing import connect
from tests.kits.amplifier.amplifier_modules import write_files
from tests.kits.amplifier.git_repositories import PlanFolder, Repository, build_module

pytestmark = pytest.mark.usefixtures("forgotten")

ONE = {"one.py": build_module("one", "first")}
NEEDY = "import needed_words\n" + build_module("one", "{needed}").replace('"{needed}"', "needed_words.HELLO")


def make_pyproject(*lines: str) -> str:
    """Return a pyproject.toml with these dependencies."""
    return f'[project]\nname = "x"\nversion = "1"\ndependencies = {list(lines)}\n'


async def call_tools(place: PlanFolder, *names: str) -> list[str]:
    """Return the results of the tools of these names for a client."""
    async with connect(place.build_bridge()) as client:
        answers = [await client.call_tool(name, {}) for name in names or ("one",)]
        return [answer.content[0].text for answer in answers]


async def get_error(place: PlanFolder) -> str:
    """Return why nothing of a plan is served."""
    bridge = place.build_bridge()
    with pytest.raises(SourceError) as error:
        async with bridge.run_sources():
            await bridge.wait_until_started()
    return str(error.value)


def change_file(folder: Path, command: str) -> None:
    """Change something there by a command."""
    assert os.system(f"cd {folder} && {command}") == 0


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with one module."""
    repo = Repository(tmp_path)
    repo.commit(ONE)
    return repo


@pytest.fixture
def uri(repository: Repository) -> str:
    """Return the module's address."""
    return f"{repository.uri}@main"


@pytest.fixture
def place(tmp_path: Path, uri: str) -> PlanFolder:
    """Return a folder with settings that permit and use the module."""
    return PlanFolder(tmp_path / "place", {"one": uri})


async def test_an_unlocked_module_is_an_error_with_the_command(place: PlanFolder, uri: str) -> None:
    assert f"{uri} is not locked. Run: mcp-bridge module lock {place.file}" in await get_error(place)
    assert not place.modules_folder.exists()


async def test_a_locked_module_is_served_and_the_lock_names_commit_and_hash(
    place: PlanFolder, uri: str, repository: Repository
) -> None:
    assert [module.uri for module in place.lock_modules().locked] == [uri]
    data = json.loads(place.lock.path.read_text())
    assert data["version"] == 1
    assert data["modules"][uri]["commit"] == repository.git("rev-parse", "HEAD")
    assert data["modules"][uri]["hash"].startswith("sha256:")
    assert await call_tools(place) == ["first"]
    assert [path.name for path in place.files(uri).iterdir() if path.name != "__pycache__"] == ["one.py"]


async def test_a_moved_branch_is_followed_only_by_an_update(
    place: PlanFolder, uri: str, repository: Repository
) -> None:
    first = place.lock_modules().locked[0].entry
    second = repository.commit({"one.py": build_module("one", "second")})
    assert await call_tools(place) == ["first"]
    for path in place.modules_folder.iterdir():
        path.rename(place.folder / "away")
    lock = place.lock_modules().locked[0]
    assert (lock.entry, lock.previous_commit) == (first, first.commit)
    module = place.lock_modules(update=True).locked[0]
    assert (module.entry.commit, module.previous_commit) == (second, first.commit)
    assert "second" in (place.files(uri) / "one.py").read_text()


async def test_a_running_bridge_keeps_its_commit(place: PlanFolder, uri: str, repository: Repository) -> None:
    place.lock_modules()
    bridge = place.build_bridge()
    async with connect(bridge, mode="legacy") as client:
        assert (await client.call_tool("one", {})).content[0].text == "first"
        repository.commit({"one.py": build_module("one", "second")})
        place.lock_modules(update=True)
        async with connect(bridge.registry, mode="legacy") as second_client:
            assert (await second_client.call_tool("one", {})).content[0].text == "first"


async def test_a_moved_tag_stays_at_its_locked_commit(tmp_path: Path, repository: Repository) -> None:
    repository.git("tag", "-a", "-m", "noted", "v1")
    repository.push("v1")
    place = PlanFolder(tmp_path / "place", {"one": f"{repository.uri}@v1"})
    first = place.lock_modules().locked[0].entry.commit
    repository.commit({"one.py": build_module("one", "second")})
    repository.git("tag", "-f", "-a", "-m", "moved", "v1")
    repository.push("v1")
    assert place.lock_modules().locked[0].entry.commit == first
    assert place.lock_modules(update=True).locked[0].entry.commit == repository.git("rev-parse", "HEAD")


async def test_several_modules_of_one_repository_are_fetched_once(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[str] = []
    real = Git.fetch
    monkeypatch.setattr(Git, "fetch", lambda self, *args: (commits.append(args[1]), real(self, *args)))
    repository.commit(
        {
            "parts/two/two.py": build_module("two", "second"),
            "parts/three/src/three/__init__.py": build_module("three", ""),
        }
    )
    places = {
        "one": f"{repository.uri}@main",
        "two": f"{repository.uri}@main#subdirectory=parts/two",
        "three": f"{repository.uri}#subdirectory=parts/three",
    }
    place = PlanFolder(tmp_path / "place", places)
    assert sorted(module.uri for module in place.lock_modules().locked) == sorted(places.values())
    assert len(commits) == 1
    assert await call_tools(place, "one", "two") == ["first", "second"]


def test_a_missing_subdirectory_is_reported(tmp_path: Path, repository: Repository) -> None:
    place = PlanFolder(tmp_path / "place", {"one": f"{repository.uri}#subdirectory=gone", "two": repository.uri})
    (error,) = place.lock_modules().errors
    assert "has no folder 'gone'" in error
    assert not place.lock.path.exists()


@pytest.mark.parametrize("change", ["echo '# more' >> one.py", "rm one.py"])
async def test_a_changed_file_is_not_run_and_locking_fetches_it_again(change: str, place: PlanFolder, uri: str) -> None:
    entry = place.lock_modules().locked[0].entry
    change_file(place.files(uri), change)
    error = await get_error(place)
    assert error.startswith(f"one: {uri}: the files in {place.modules_folder}")
    assert "have changed since they were locked, and are not run" in error
    assert f"mcp-bridge module lock {place.file}" in error
    assert place.lock_modules().locked[0].entry == entry
    assert await call_tools(place) == ["first"]


def test_a_rejected_checkout_is_checked_again(place: PlanFolder, uri: str) -> None:
    place.lock_modules()
    (place.files(uri) / "more.py").write_text("")
    second_resolver = resolver.Resolver(place.folder, git=("*",), modules=place.modules_folder)
    with pytest.raises(ModuleLoadError, match=r"have changed .* run: mcp-bridge module lock FILE$"):
        second_resolver.resolve("one", uri)
    place.lock_modules()
    assert second_resolver.resolve("one", uri).resolve() == place.files(uri)


async def test_compiled_files_in_a_checkout_are_not_run(place: PlanFolder, uri: str) -> None:
    place.lock_modules()
    files = place.files(uri)
    source = files / "one.py"
    honest = source.read_text()
    source.write_text(honest.replace("first", "other"))
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    source.write_text(honest)
    assert list((files / "__pycache__").iterdir())
    assert await call_tools(place) == ["first"]


async def test_a_locked_module_that_is_not_fetched_is_an_error_with_the_command(
    place: PlanFolder, uri: str, tmp_path: Path
) -> None:
    commit = place.lock_modules().locked[0].entry.commit
    place.modules_folder.rename(tmp_path / "away")
    error = await get_error(place)
    assert f"{uri} is locked, but commit {commit[:12]} is not on this machine" in error
    assert f"mcp-bridge module lock {place.file}" in error
    place.lock_modules()
    assert await call_tools(place) == ["first"]


async def test_a_locked_module_that_is_not_allowed_is_not_run(tmp_path: Path, uri: str) -> None:
    PlanFolder(tmp_path / "place", {"one": uri}).lock_modules()
    for patterns in ((), ("https://*",), ("file:///other/*",)):
        place = PlanFolder(tmp_path / "place", {"one": uri}, git=patterns)
        assert "is not allowed" in await get_error(place)


async def test_a_hostile_address_is_reported_and_the_other_modules_are_served(tmp_path: Path) -> None:
    write_files(tmp_path / "place", {"one.py": build_module("one", "first")})
    place = PlanFolder(tmp_path / "place", {"one": "one.py", "bad": "git+ext::sh -c id", "out": "git+file:///a/../b"})
    bridge = place.build_bridge()
    async with connect(bridge) as client:
        assert (await client.call_tool("one", {})).content[0].text == "first"
    first, second = bridge.problems["amplifier"]
    assert "spaces" in first
    assert "segments such as" in second


def test_a_commit_with_a_link_out_of_it_is_rejected(place: PlanFolder, repository: Repository) -> None:
    (repository.work / "words").symlink_to("../../secret")
    repository.commit({})
    (error,) = place.lock_modules().errors
    assert "'words' is a link to ../../secret, outside of the repository" in error
    assert not place.lock.path.exists()
    assert not list(place.modules_folder.iterdir())


async def test_compiled_files_in_a_commit_are_not_kept(place: PlanFolder, uri: str, repository: Repository) -> None:
    write_files(repository.work, {"__pycache__/one.cpython-311.pyc": "odd", "deep/two.py": ""})
    (repository.work / "deep" / "__pycache__").symlink_to("..")
    repository.commit({})
    place.lock_modules()
    assert not list(place.files(uri).rglob("__pycache__"))
    assert await call_tools(place) == ["first"]


def test_files_that_differ_from_the_locked_ones_are_an_error(place: PlanFolder, uri: str, tmp_path: Path) -> None:
    entry = place.lock_modules().locked[0].entry
    place.lock.write({uri: LockEntry(commit=entry.commit, hash=f"sha256:{'0' * 64}")})
    (error,) = place.lock_modules().errors
    assert "differ from those that were locked" in error
    assert place.lock.modules[uri].hash == f"sha256:{'0' * 64}"
    place.modules_folder.rename(tmp_path / "away")
    (error,) = place.lock_modules(update=True).errors
    assert "differ from those that were locked" in error
    assert not list(place.modules_folder.iterdir())


def test_two_entries_of_one_commit_cannot_have_different_files(tmp_path: Path, repository: Repository) -> None:
    uris = {"one": f"{repository.uri}@main", "two": repository.uri}
    place = PlanFolder(tmp_path / "place", uris)
    place.lock_modules()
    wrong = replace(place.lock.modules[uris["two"]], hash=f"sha256:{'0' * 64}")
    place.lock.write({uris["two"]: wrong})
    (error,) = place.lock_modules().errors
    assert error.startswith(f"{uris['two']}: the files of commit")


def test_a_checkout_that_another_bridge_has_made_meanwhile_is_used(
    place: PlanFolder, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lock_file.move_into_place

    def late(checkout: Path, to: Path, room: Path) -> None:
        shutil.copytree(checkout, to)
        raise OSError("Directory not empty")

    def full(checkout: Path, to: Path, room: Path) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(lock_file, "move_into_place", full)
    assert place.lock_modules().errors == ["No space left on device"]
    monkeypatch.setattr(lock_file, "move_into_place", late)
    assert place.lock_modules().errors == ()
    monkeypatch.setattr(lock_file, "move_into_place", real)
    assert "first" in (place.files(uri) / "one.py").read_text()


def test_files_on_the_disk_are_not_used_for_a_new_entry(place: PlanFolder, uri: str) -> None:
    entry = place.lock_modules().locked[0].entry
    (place.files(uri) / "one.py").write_text("changed")
    place.lock.path.unlink()
    assert place.lock_modules().locked[0].entry == entry
    assert "first" in (place.files(uri) / "one.py").read_text()


def test_an_interrupted_fetch_is_not_seen(place: PlanFolder, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Git, address: Any, commit: str, folder: Path) -> None:
        write_files(folder, {"one.py": "half of it"})
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Git, "fetch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            place.lock_modules()
    assert list(place.modules_folder.iterdir()) == []
    assert not place.lock.path.exists()
    place.lock_modules()
    assert "first" in (place.files(uri) / "one.py").read_text()


def test_one_failing_module_leaves_the_lock_file_unchanged(tmp_path: Path, uri: str, repository: Repository) -> None:
    place = PlanFolder(tmp_path / "place", {"one": uri})
    place.lock_modules()
    before = place.lock.path.read_bytes()
    repository.commit({"one.py": build_module("one", "second")})
    more = PlanFolder(
        tmp_path / "place", {"one": uri, "two": f"{repository.uri}@gone", "three": f"{repository.uri}@none"}
    )
    outcome = more.lock_modules(update=True)
    assert [line.partition(": ")[2] for line in outcome.errors] == [
        "the repository has no branch or tag 'gone'. Check its name",
        "the repository has no branch or tag 'none'. Check its name",
    ]
    assert place.lock.path.read_bytes() == before


def test_the_entries_of_other_settings_stay(tmp_path: Path, uri: str, repository: Repository) -> None:
    PlanFolder(tmp_path / "place", {"one": uri, "two": repository.uri}).lock_modules()
    fewer = PlanFolder(tmp_path / "place", {"one": uri})
    fewer.lock_modules()
    assert sorted(fewer.lock.modules) == sorted([uri, repository.uri])


async def test_a_missing_dependency_is_reported_with_the_command_that_installs_it(
    tmp_path: Path, repository: Repository
) -> None:
    repository.commit(
        {"one.py": NEEDY, "pyproject.toml": make_pyproject("needed-words>=1", "pytest", "amplifier-core")}
    )
    place = PlanFolder(tmp_path / "place", {"one": repository.uri})
    place.lock_modules()
    reason = await get_error(place)
    assert "No module named 'needed_words'" in reason
    assert "requires what is not installed. Run: " in reason
    assert reason.endswith("'needed-words>=1'")


async def test_every_call_is_denied_while_hooks_from_git_are_missing(tmp_path: Path, repository: Repository) -> None:
    hook = "def mount(c, d): return c.hooks.register('tool:pre', lambda event, data: {'action': 'continue'}, name='x')"
    repository.commit({"hook.py": hook})
    place = PlanFolder(tmp_path / "place", {"hook": repository.uri})
    text = place.file.read_text().replace("tools:", "tools: [one]\n      hooks:")
    write_files(place.folder, {"mine.yaml": text, "one.py": build_module("one", "first")})
    (denial,) = await call_tools(place)
    assert "the hooks of 'hook' are not in place, so every call is denied" in denial
    place.lock_modules()
    assert await call_tools(place) == ["first"]


async def test_the_files_are_checked_once(
    place: PlanFolder, monkeypatch: pytest.MonkeyPatch, repository: Repository, tmp_path: Path
) -> None:
    records: list[Path] = []
    real = resolver.hash_files
    monkeypatch.setattr(resolver, "hash_files", lambda folder: (records.append(folder), real(folder))[1])
    both = PlanFolder(tmp_path / "place", {"one": f"{repository.uri}@main", "again": f"{repository.uri}"})
    both.lock_modules()
    bridge = both.build_bridge()
    async with connect(bridge), connect(bridge.registry):
        assert len(records) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a lock file"),
        ("{}", "is not a lock file"),
        ("<<<<<<< HEAD", "is not a lock file"),
        ('{"version": 2, "modules": {}}', "has version 2, but only 1 is supported"),
        ('{"version": 1, "modules": []}', "is not a lock file"),
        ('{"version": 1, "modules": {"x": {}}}', "is not a lock file"),
        ('{"version": 1, "modules": {"x": {"commit": "main", "hash": ""}}}', "is not a lock file"),
        (f'{{"version": 1, "modules": {{"x": {{"commit": "{"a" * 40}", "hash": "../.."}}}}}}', "is not a lock file"),
    ],
)
def test_a_broken_lock_file_is_reported(text: str, problem: str, tmp_path: Path) -> None:
    LockFile.read(tmp_path).path.write_text(text)
    with pytest.raises(ModuleLoadError, match=problem):
        LockFile.read(tmp_path)


async def test_nothing_is_served_with_a_broken_lock_file(place: PlanFolder) -> None:
    place.lock.path.write_text("<<<<<<< HEAD")
    assert "is not a lock file" in await get_error(place)


def test_the_lock_file_is_written_in_order_and_only_when_it_changes(tmp_path: Path, repository: Repository) -> None:
    uris = [f"{repository.uri}@main", repository.uri, f"{repository.uri}@HEAD"]
    place = PlanFolder(tmp_path / "place", dict(zip("abc", uris, strict=True)))
    place.lock_modules()
    path = place.lock.path
    assert list(json.loads(path.read_text())["modules"]) == sorted(uris)
    os.utime(path, (1, 1))
    place.lock_modules()
    assert path.stat().st_mtime == 1
    assert sorted(each.name for each in place.folder.iterdir()) == ["amplifier.lock.json", "kept", "mine.yaml"]


def test_a_lock_file_that_cannot_be_written_is_reported_and_leaves_no_file(
    place: PlanFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ModuleLoadError, match=r"amplifier\.lock\.json cannot be written: No space left on device"):
        place.lock_modules()
    assert sorted(path.name for path in place.folder.iterdir()) == ["kept", "mine.yaml"]
