"""A server with the page, one browser for each module, and a page for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.kits.web.browser import launch, open_page
from tests.kits.web.page_server import OtherClients, PageServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Yield the shop for the tests of a module."""
    shop = PageServer(tmp_path_factory.mktemp("shop"))
    shop.start()
    yield shop
    shop.stop()


@pytest.fixture(scope="module")
def clients(server: PageServer) -> Iterator[OtherClients]:
    """Connect other clients to the shop."""
    shop_clients = OtherClients(server)
    yield shop_clients
    shop_clients.close()


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Start Chromium."""
    with launch(request.config) as running:
        yield running


@pytest.fixture
def page(browser: Browser, server: PageServer) -> Iterator[Page]:
    """Open the page of the shop."""
    with open_page(browser, server) as open_tab:
        yield open_tab
