"""Chromium for tests, driven by playwright."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.kits.node.needed import print_uncaptured
from tests.kits.web.page_server import PageServer

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
TIMEOUT_MS = 30_000
"""How long something may take to appear, in milliseconds."""


def find_chromium(config: pytest.Config) -> str:
    """Return the path of Chromium. Without it, print the reason and skip the test; in CI the test fails."""
    if path := shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome"):
        return path
    reason = "the page was NOT TESTED in a browser: install chromium"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    print_uncaptured(config, reason)
    pytest.skip(reason)


@contextmanager
def launch(config: pytest.Config) -> Iterator[Browser]:
    """Run a browser. Its driver runs an event loop in this thread, so tests that use another loop need a thread."""
    path = find_chromium(config)
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_page(browser: Browser, server: PageServer, **options: object) -> Iterator[Page]:
    """Open the page with its token, and wait until it is connected.

    Errors in its console fail the test, except those of broken connections.
    """
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if is_error(message) else None)
    page.goto(server.address)
    # The title is from the state. The page reads it after it has begun to follow the events.
    expect(page).to_have_title(re.compile("Shop"))
    try:
        yield page
    finally:
        context.close()
    assert not errors


def is_error(message: ConsoleMessage) -> bool:
    """Whether the page, not the network, has reported an error."""
    return message.type == "error" and "Failed to load resource" not in message.text
