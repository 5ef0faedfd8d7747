"""The modules of the systems offer the same names, so that callers need not know the system."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

from mcp_bridge._runtime.platform import windows, windows_streams
from mcp_bridge._runtime.platform.local_connection import LocalEndpoints

posix = pytest.importorskip("mcp_bridge._runtime.platform.posix", exc_type=AssertionError)
posix_streams = pytest.importorskip("mcp_bridge._runtime.platform.posix_streams", exc_type=AssertionError)


def list_interface(module: ModuleType) -> dict[str, Any]:
    """Return the functions and public methods of a module with their parameters, and its other public names."""
    interface: dict[str, Any] = {}
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or getattr(value, "__module__", "").startswith("typing"):
            continue
        if inspect.isclass(value):
            for member, function in vars(value).items():
                if inspect.isfunction(function) and (member == "__init__" or not member.startswith("_")):
                    interface[f"{name}.{member}"] = list(inspect.signature(function).parameters)
        elif inspect.isfunction(value):
            interface[name] = list(inspect.signature(value).parameters)
        else:
            interface[name] = None
    return interface


@pytest.mark.parametrize(("first", "second"), [(posix, windows), (posix_streams, windows_streams)])
def test_what_posix_offers_windows_offers_too(first: ModuleType, second: ModuleType) -> None:
    here, there = list_interface(first), list_interface(second)
    for name in ("Path", "TYPE_CHECKING", "RUNTIME_FOLDER", "is_guard_wanted", "annotations"):
        here.pop(name, None)
    assert {name: there.get(name, "missing") for name in here} == here


@pytest.mark.parametrize("name", ["unix_sockets", "tcp_endpoints"])
def test_both_kinds_of_endpoints_have_the_whole_interface(name: str) -> None:
    module = pytest.importorskip(f"mcp_bridge._runtime.platform.{name}", exc_type=AssertionError)
    for member, value in vars(LocalEndpoints).items():
        if inspect.isfunction(value) and not member.startswith("_"):
            parameters = list(inspect.signature(value).parameters)[1:]
            assert list(inspect.signature(getattr(module, member)).parameters) == parameters
    assert module.HAS_UNIX_SOCKETS is (name == "unix_sockets")
