"""What the conformance tests need: Node with the suite, as the Node clients have it."""

from __future__ import annotations

import os
import sys

import pytest
from referee import Toolchain, ToolchainUnavailable, toolchain


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> Toolchain:
    """Node and the suite; without them the tests are skipped aloud, and fail in CI."""
    try:
        return toolchain()
    except ToolchainUnavailable as missing:
        reason = f"THE CONFORMANCE SUITE DID NOT RUN: {missing}"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        capture = pytestconfig.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            print(f"\n{reason}", file=sys.stderr, flush=True)
        pytest.skip(reason)
