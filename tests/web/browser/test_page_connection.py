"""The page and its server: the token, a restart of the server, and links to a panel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.kits.web.browser import open_page
from tests.kits.web.page_server import TOKEN, OtherClients, PageServer


@pytest.fixture
def blank(browser: Browser) -> Iterator[Page]:
    """Yield a tab without a token."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def test_the_token_is_removed_from_the_address_and_stored_for_the_tab(page: Page, server: PageServer) -> None:
    expect(page.get_by_role("link", name="take")).to_be_visible()
    assert TOKEN not in page.url
    page.reload()
    expect(page.get_by_role("link", name="take")).to_be_visible()


def test_without_a_token_a_form_asks_for_it(blank: Page, server: PageServer) -> None:
    blank.goto(server.base)
    expect(blank.get_by_role("heading", name="This server needs a token.")).to_be_visible()
    blank.get_by_label("Token").fill("wrong…")
    blank.get_by_role("button", name="Continue").click()
    expect(blank.get_by_role("heading", name="The server does not accept this token.")).to_be_visible()
    blank.get_by_label("Token").fill(TOKEN)
    blank.get_by_role("button", name="Continue").click()
    expect(blank.get_by_role("link", name="take")).to_be_visible()


def test_a_token_in_a_new_address_replaces_the_old_one(blank: Page, server: PageServer) -> None:
    blank.goto(f"{server.base}/#token=old")
    expect(blank.get_by_role("heading", name="The server does not accept this token.")).to_be_visible()
    blank.goto(server.address)
    expect(blank.get_by_role("link", name="take")).to_be_visible()
    assert TOKEN not in blank.url


def test_an_address_names_a_panel_and_what_is_selected_in_it(page: Page, server: PageServer) -> None:
    page.goto(f"{server.base}/#/tools/take")
    expect(page.get_by_role("heading", name="take")).to_be_visible()
    page.get_by_role("link", name=re.compile("^Sources")).click()
    expect(page.get_by_role("heading", name="Sources", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="take")).to_be_visible()
    page.goto(f"{server.base}/#/tools/nothing")
    expect(page.get_by_text("There is no tool “nothing”.")).to_be_visible()
    page.goto(f"{server.base}/#/tools/50%")
    expect(page.get_by_text("There is no tool “50%”.")).to_be_visible()


def test_a_page_beyond_the_limit_shows_why_it_does_not_connect(blank: Page, server: PageServer) -> None:
    limits = httpx2.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=server.base, headers=headers, limits=limits) as http, ExitStack() as pages:
        while pages.enter_context(http.stream("GET", "/page/events")).status_code == 200:
            pass
        blank.goto(server.address)
        expect(blank.get_by_text("32 pages are open. Close one. Connecting again…")).to_be_visible()
    expect(blank.get_by_role("link", name="take")).to_be_visible()
    expect(blank.get_by_text("Connecting again…")).to_have_count(0)


def test_the_page_sends_no_request_to_other_hosts(browser: Browser, server: PageServer) -> None:
    urls: list[str] = []
    with open_page(browser, server) as page:
        page.on("request", lambda request: urls.append(request.url))
        page.reload()
        expect(page.get_by_role("link", name="take")).to_be_visible()
        for link in page.get_by_role("navigation").get_by_role("listitem").get_by_role("link").all():
            link.click()
    assert urls
    assert [url for url in urls if not url.startswith(server.base)] == []


def test_the_page_reconnects_after_a_restart_of_the_server(
    browser: Browser, server: PageServer, clients: OtherClients
) -> None:
    with open_page(browser, server) as page:
        clients.call("take", {"item": "figs"}).result()
        page.get_by_role("link", name="Calls").click()
        grid = page.get_by_role("grid")
        expect(grid.get_by_role("row")).to_have_count(2)
        page.goto(f"{server.base}/#/tools/count")
        page.get_by_role("textbox", name="to").fill("3")
        page.get_by_role("button", name="Call tool").click()
        expect(page.get_by_text("2 / 3")).to_be_visible()
        server.stop()
        try:
            expect(page.get_by_text("The connection to the server is lost.")).to_be_visible()
            expect(page.get_by_text("The connection broke before the result arrived.")).to_be_visible()
            page.get_by_role("button", name="Call tool").click()
            expect(page.get_by_text("The server does not respond.")).to_be_visible()
        finally:
            server.start()
        expect(page.get_by_text("The connection to the server is lost.")).to_have_count(0)
        clients.call("show").result()
        page.get_by_role("link", name="Calls").click()
        # Only the rows of the new process are shown.
        expect(grid.get_by_role("row")).to_have_count(2)
        expect(grid.get_by_role("row").nth(1)).to_contain_text("show")
