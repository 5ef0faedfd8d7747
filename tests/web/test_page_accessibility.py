"""The page for screen readers and low vision: axe-core finds nothing in any panel, in any colours and widths."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.kits.node.needed import say
from tests.kits.node.toolchain import ToolchainUnavailable, find_node, install
from tests.kits.paths import ROOT
from tests.kits.web.browser import open_page
from tests.kits.web.page_server import OtherClients, PageServer

pytestmark = [pytest.mark.npm, pytest.mark.timeout(300)]
VIEWS = [
    "tools", "tools/take", "tools/order", "calls", "calls/1", "inbox", "decisions", "quarantine", "sources", "clients",
    "install", "lint", "settings",
]  # fmt: skip
LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"viewport": {"width": 360, "height": 740}},
}


@pytest.fixture(scope="module")
def axe(pytestconfig: pytest.Config) -> Path:
    """The script of axe-core."""
    try:
        return install(find_node(), ROOT / "web") / "axe-core" / "axe.min.js"
    except ToolchainUnavailable as missing:
        reason = f"the accessibility of the page was NOT CHECKED: {missing}"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        say(pytestconfig, reason)
        pytest.skip(reason)


@pytest.fixture(params=LOOKS)
def looked_at(request: pytest.FixtureRequest, browser: Browser, server: PageServer) -> Iterator[Page]:
    """The page in some colours and width."""
    with open_page(browser, server, bypass_csp=True, **LOOKS[request.param]) as opened:
        yield opened


def find_violations(page: Page, axe: Path) -> list[str]:
    """What axe-core finds: the rule, and where."""
    if not page.evaluate("'axe' in window"):
        page.add_script_tag(path=axe)
    results = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice']})")
    return [f"{one['id']}: {node['html'][:120]}" for one in results["violations"] for node in one["nodes"]]


def test_axe_finds_nothing(looked_at: Page, server: PageServer, others: OtherClients, axe: Path) -> None:
    page = looked_at
    others.call("take", {"item": "apples"}).result()
    expect(page.get_by_role("link", name="take")).to_be_visible()
    found = {}
    for view in VIEWS:
        page.goto(f"{server.base}/#/{view}")
        expect(page.get_by_role("main").get_by_role("heading").first).to_be_attached()
        if view.startswith("tools/"):
            page.get_by_role("button", name="Call tool").click()
            expect(page.get_by_role("region", name="Result", exact=True).get_by_text("error")).to_be_visible()
        found[view] = find_violations(page, axe)
    page.keyboard.press("?")
    found["help"] = find_violations(page, axe)
    assert {view: problems for view, problems in found.items() if problems} == {}
