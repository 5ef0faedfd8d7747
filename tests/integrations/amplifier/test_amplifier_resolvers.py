"""Resolvers and sources of all spellings, sync and async, of this package and of others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge.amplifier import ModuleCoordinator, ModuleLoader, ModuleLoadError, ModuleNotFoundError
from mcp_bridge.amplifier.testing import TestCoordinator
from tests.kits.amplifier.amplifier_modules import write_files


class Source:
    """A source without a base class."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resolve(self) -> Path:
        """The path."""
        return self.path


class Later(Source):
    """An asynchronous source."""

    async def resolve(self) -> Path:  # type: ignore[override]
        """The path."""
        await anyio.lowlevel.checkpoint()
        return self.path


class Text(Source):
    """A source with a path as text."""

    def resolve(self) -> str:  # type: ignore[override]
        """The path."""
        return str(self.path)


class Resolver:
    """A resolver with a record of its arguments."""

    def __init__(self, source: Any) -> None:
        self.source, self.asked = source, ()

    def answer(self, *arguments: Any) -> Any:
        """The source, or the error."""
        self.asked = arguments
        if isinstance(self.source, BaseException):
            raise self.source
        return self.source


class OfDocument(Resolver):
    """As the Module Source Protocol has it."""

    def resolve(self, module_id: str, profile_hint: Any = None) -> Any:
        """A source."""
        return self.answer(module_id, profile_hint)


class OfCore(Resolver):
    """As amplifier-core has it."""

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        """A source."""
        assert source_hint == profile_hint
        return self.answer(module_id, source_hint)


class ByKeyword(Resolver):
    """A resolver with its hint as a keyword."""

    def resolve(self, module_id: str, *, source_hint: Any = None) -> Any:
        """A source."""
        return self.answer(module_id, source_hint)


class ByPosition(Resolver):
    """A resolver with another name for its hint."""

    def resolve(self, module: str, hint: Any) -> Any:
        """A source."""
        return self.answer(module, hint)


class Awaited(Resolver):
    """A resolver with an asynchronous `resolve`."""

    async def resolve(self, module_id: str, profile_hint: Any = None) -> Any:
        """A source."""
        await anyio.lowlevel.checkpoint()
        return self.answer(module_id, profile_hint)


class Async(Resolver):
    """A resolver with both methods, as in amplifier-foundation."""

    def resolve(self, module_id: str, source_hint: Any = None) -> Any:
        """Never called."""
        raise AssertionError("not activated")

    async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        """A source."""
        await anyio.lowlevel.checkpoint()
        return self.answer(module_id, source_hint)


RESOLVERS = [OfDocument, OfCore, ByKeyword, ByPosition, Awaited, Async]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a module that is removed from the imported modules after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return write_files(tmp_path, {"resolved_module.py": "def mount(coordinator, config): return config"})


def make_loader(resolver: Any) -> ModuleLoader:
    """Return a loader on a coordinator with a resolver."""
    coordinator = TestCoordinator()
    coordinator.mount("module-source-resolver", resolver)
    return ModuleLoader(coordinator)


@pytest.mark.parametrize(
    ("resolver_type", "source"),
    [
        *((resolver_type, Source) for resolver_type in RESOLVERS),
        (OfDocument, Later),
        (Async, Later),
        (OfDocument, Text),
    ],
)
async def test_every_form_of_resolver_and_source_works(
    resolver_type: type[Resolver], source: type[Source], module: Path
) -> None:
    resolver = resolver_type(source(module / "resolved_module.py"))
    assert await make_loader(resolver).load("mine", {"a": 1}, "hint") == {"a": 1}
    assert resolver.asked == ("mine", "hint")


@pytest.mark.parametrize("source", [Path, str])
async def test_a_resolver_may_return_a_path(source: Any, module: Path) -> None:
    assert await make_loader(OfDocument(source(module / "resolved_module.py"))).load("mine") == {}


async def test_the_hint_may_be_given_by_either_name_and_the_coordinator_at_the_call(module: Path) -> None:
    resolver = OfDocument(Source(module / "resolved_module.py"))
    loader, coordinator = ModuleLoader(), TestCoordinator()
    coordinator.mount("module-source-resolver", resolver)
    await loader.load("mine", {}, profile_source="one", coordinator=coordinator)
    assert resolver.asked == ("mine", "one")
    await loader.load("mine", {}, source_hint="two", coordinator=coordinator)
    assert resolver.asked == ("mine", "two")
    await loader.load("mine", {}, "three", coordinator)
    assert resolver.asked == ("mine", "three")


class TheirNotFound(Exception):
    """The error of another package."""


TheirNotFound.__name__ = "ModuleNotFoundError"


@pytest.mark.parametrize(
    ("error", "resolver_type"),
    [
        (ModuleNotFoundError("gone"), OfDocument),
        (__builtins__["ModuleNotFoundError"]("gone"), Awaited),
        (TheirNotFound("gone"), Async),
    ],
)
async def test_a_not_found_error_of_any_package_is_recognized(error: Exception, resolver_type: type[Resolver]) -> None:
    with pytest.raises(ModuleNotFoundError, match="gone"):
        await make_loader(resolver_type(error)).load("mine", {}, "hint")


@pytest.mark.parametrize("error", [PermissionError("closed"), SystemExit("closed"), RuntimeError("closed")])
async def test_any_other_error_of_a_resolver_is_reported(error: BaseException) -> None:
    with pytest.raises(ModuleLoadError, match=f"'mine': its source cannot be resolved: {type(error).__name__}: closed"):
        await make_loader(OfDocument(error)).load("mine")


async def test_a_resolver_that_returns_no_source_is_an_error() -> None:
    with pytest.raises(ModuleLoadError, match="its source cannot be resolved: TypeError"):
        await make_loader(OfDocument(5)).load("mine")
    with pytest.raises(ModuleLoadError, match="its source cannot be resolved: AttributeError"):
        await make_loader(object()).load("mine")


async def test_a_coordinator_may_have_no_mount_point_for_resolvers() -> None:
    class Small(ModuleCoordinator):
        def get(self, mount_point: str, name: str | None = None) -> Any:
            raise ValueError(f"Unknown mount point: {mount_point}")

    with pytest.raises(ModuleNotFoundError, match="not an entry point"):
        await ModuleLoader(Small()).load("mine")


async def test_an_ignored_source_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ModuleNotFoundError):
        await ModuleLoader(TestCoordinator()).load("mine", {}, "git+https://host/mine")
    assert "no resolver is mounted" in caplog.text
