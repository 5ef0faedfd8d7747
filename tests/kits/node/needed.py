"""Node for tests that require it."""

from __future__ import annotations

import os
import sys

import pytest

from tests.kits.node.toolchain import Toolchain, ToolchainUnavailable, find_toolchain


def require_toolchain(config: pytest.Config, otherwise: str) -> Toolchain:
    """Return Node and its packages. Without them, print `otherwise` and skip the test; in CI the test fails."""
    try:
        return find_toolchain()
    except ToolchainUnavailable as missing:
        reason = f"{otherwise}: {missing}"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        print_uncaptured(config, reason)
        pytest.skip(reason)


def print_uncaptured(config: pytest.Config, line: str) -> None:
    """Print a line that pytest does not capture, also from a worker of pytest-xdist."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{line}", file=sys.stderr, flush=True)
