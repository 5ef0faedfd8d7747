"""Node for tests that require it."""

from __future__ import annotations

import os
import sys

import pytest

from tests.kits.node.toolchain import Toolchain, ToolchainUnavailable, toolchain


def needed(config: pytest.Config, otherwise: str) -> Toolchain:
    """Node and its packages; without them the tests are skipped aloud, saying `otherwise`, and fail in CI."""
    try:
        return toolchain()
    except ToolchainUnavailable as missing:
        reason = f"{otherwise}: {missing}"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        say(config, reason)
        pytest.skip(reason)


def say(config: pytest.Config, line: str) -> None:
    """Print a line past output capturing, also from a worker of pytest-xdist."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{line}", file=sys.stderr, flush=True)
