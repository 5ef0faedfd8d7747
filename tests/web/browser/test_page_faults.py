"""Faults are visible where the author looks: files that cannot be reloaded, exceptions, and log messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.kits.web.browser import open_page
from tests.kits.web.page_server import OtherClients, PageServer

SHOP = (Path(__file__).parents[2] / "kits" / "web" / "shop.py").read_text()


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[PageServer]:
    """Run a shop that reloads its file."""
    shop = PageServer(tmp_path, options=["--reload"])
    shop.start()
    yield shop
    shop.stop()


def test_a_broken_file_is_reported_in_every_panel_until_it_is_repaired(browser: Browser, reloading: PageServer) -> None:
    file = reloading.folder / "shop.py"
    with open_page(browser, reloading) as page:
        banner = page.get_by_role("alert", name="Problems of files")
        expect(banner).to_have_count(0)
        file.write_text(SHOP + "\ndef broken(:\n")
        line = len(SHOP.splitlines()) + 2
        for panel in ("Tools", "Calls", "Inbox"):
            page.get_by_role("link", name=panel).click()
            expect(banner).to_contain_text(f"{file}:{line}: SyntaxError")
        page.get_by_role("link", name=re.compile("^Sources")).click()
        # The problem is shown once.
        expect(page.get_by_text("SyntaxError")).to_have_count(1)
        row = page.get_by_role("region", name="Sources", exact=True).get_by_role("row").filter(has_text="shop")
        expect(row).to_contain_text("degraded")
        page.get_by_role("link", name="Tools").click()
        expect(page.get_by_role("link", name="take")).to_be_visible()
        file.write_text(SHOP)
        expect(banner).to_have_count(0)
        page.get_by_role("link", name=re.compile("^Sources")).click()
        expect(row).to_contain_text("ready")


def test_an_exception_is_shown_with_the_lines_of_the_author(page: Page, server: PageServer) -> None:
    page.get_by_role("link", name="break_down").click()
    page.get_by_role("button", name="Call tool").click()
    result = page.get_by_role("region", name="Result", exact=True)
    exception = result.get_by_label("Exception")
    expect(exception).to_contain_text("RuntimeError: the shelf has collapsed")
    expect(exception).to_contain_text(f'File "{server.folder / "shop.py"}"')
    expect(exception).not_to_contain_text("pipeline.py")


def test_a_call_of_another_client_shows_its_log_and_its_exception(
    page: Page, clients: OtherClients, server: PageServer
) -> None:
    (server.folder / "release").touch()
    clients.call("count", {"to": 3}).result()
    (server.folder / "release").unlink()
    clients.call("break_down").result()
    page.get_by_role("link", name="Calls").click()
    grid = page.get_by_role("grid", name="Calls, newest first")
    call = page.get_by_role("region", name="Call", exact=True)
    grid.get_by_role("row").filter(has_text="count").first.click()
    expect(call.get_by_label("Log of the call")).to_have_text("info: at 1\ninfo: at 2")
    grid.get_by_role("row").filter(has_text="break_down").first.click()
    expect(call.get_by_label("Exception")).to_contain_text("RuntimeError: the shelf has collapsed")


def test_a_call_that_waits_for_a_user_is_asking(page: Page, clients: OtherClients) -> None:
    reserving = clients.call("reserve", {"item": "plums"})
    page.get_by_role("link", name="Calls").click()
    row = page.get_by_role("grid", name="Calls, newest first").get_by_role("row").filter(has_text="reserve").first
    expect(row).to_contain_text("asking")
    page.get_by_role("link", name="Inbox").click()
    page.get_by_role("button", name="Answer").click()
    reserving.result()
    page.get_by_role("link", name="Calls").click()
    expect(row).to_contain_text("ok")
