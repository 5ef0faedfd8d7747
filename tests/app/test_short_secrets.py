"""Secrets short enough to be guessed are reported at the start."""

from __future__ import annotations

import pytest

from mcp_bridge._app.bridge import Bridge


async def start_with(secrets: list[str], *, serving: bool = True) -> None:
    bridge = Bridge()
    bridge.hide_secrets(secrets)
    async with bridge.run_sources(serving=serving):
        pass


async def test_a_start_warns_once_about_short_secrets_without_showing_them(caplog: pytest.LogCaptureFixture) -> None:
    await start_with(["481516", "abc", "long-enough"])
    (warning,) = caplog.messages
    assert "fewer than 8 characters: 2." in warning
    assert "481516" not in warning


async def test_a_start_with_long_secrets_and_a_command_that_serves_nothing_warn_of_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await start_with(["long-enough"])
    await start_with(["481516"], serving=False)
    assert not caplog.messages
