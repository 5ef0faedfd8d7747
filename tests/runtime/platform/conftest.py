"""The functions of Windows, simulated in the process of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcp_bridge._runtime.platform import windows, windows_access

windows_kernel = pytest.importorskip("tests.kits.platforms.windows_kernel", reason="simulates Windows elsewhere")


@pytest.fixture
def simulated_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the code for Windows in this process call the simulated functions."""
    for module in (windows, windows_access):
        monkeypatch.setattr(module, "kernel32", windows_kernel)
    yield
    for job in list(windows_kernel.jobs):
        windows_kernel.close_handle(job)
