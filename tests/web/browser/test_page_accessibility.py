"""The page for screen readers and low vision: axe-core finds nothing in any panel, in any colours and widths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.kits.node.needed import print_uncaptured
from tests.kits.node.toolchain import ToolchainUnavailable, find_node, install
from tests.kits.paths import ROOT
from tests.kits.web.browser import open_page
from tests.kits.web.page_server import OtherClients, PageServer

pytestmark = pytest.mark.npm
VIEWS = [
    "tools", "tools/take", "tools/order", "resources", "resources/notes%3A%2F%2Ftoday", "prompts/advertise", "calls",
    "calls/1", "inbox", "decisions", "quarantine", "sources", "clients", "install", "lint", "settings",
]  # fmt: skip
EVERYTHING = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]}
LOOKS = {
    "light": ({"color_scheme": "light"}, EVERYTHING),
    # Other rules do not depend on the colour scheme.
    "dark": ({"color_scheme": "dark"}, {"type": "rule", "values": ["color-contrast"]}),
    "narrow": ({"viewport": {"width": 360, "height": 740}}, EVERYTHING),
}


@pytest.fixture(scope="module")
def axe(pytestconfig: pytest.Config) -> Path:
    """Return the script of axe-core."""
    try:
        return install(find_node(), ROOT / "web") / "axe-core" / "axe.min.js"
    except ToolchainUnavailable as missing:
        reason = f"the accessibility of the page was NOT CHECKED: {missing}"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        print_uncaptured(pytestconfig, reason)
        pytest.skip(reason)


def find_violations(page: Page, rules: dict) -> list[str]:
    """Return the violations found by axe-core: the rule, and the beginning of the element."""
    results = page.evaluate("rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", rules)
    violations: list[str] = []
    for violation in results["violations"]:
        violations += [f"{violation['id']}: {node['html'][:120]}" for node in violation["nodes"]]
    return violations


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_no_accessibility_problems(
    browser: Browser, server: PageServer, clients: OtherClients, axe: Path, look: str
) -> None:
    options, rules = LOOKS[look]
    clients.call("take", {"item": "apples"}).result()
    violations = {}
    with open_page(browser, server, bypass_csp=True, **options) as page:
        page.add_script_tag(path=axe)
        for view in VIEWS:
            page.goto(f"{server.base}/#/{view}")
            expect(page.get_by_role("main").get_by_role("heading").first).to_be_attached()
            if view.startswith("tools/"):
                page.get_by_role("button", name="Call tool").click()
                expect(page.get_by_role("region", name="Result", exact=True).get_by_text("error")).to_be_visible()
            violations[view] = find_violations(page, rules)
        page.keyboard.press("?")
        violations["help"] = find_violations(page, rules)
    assert {view: problems for view, problems in violations.items() if problems} == {}
