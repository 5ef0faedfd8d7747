"""Lists in natural order and in groups, safe Markdown, answers by hand, and the menu of narrow screens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.kits.web.browser import open_page
from tests.kits.web.page_server import PageServer

SETTINGS = """
title: Shop
http: {page: true, token_env: SHOP_TOKEN}
sources:
  - {type: python, path: shelves.py}
  - {type: python, path: boxes.py}
"""
SHELVES = '''
from mcp_bridge import tool


@tool(tags=["stock"])
def shelf_10() -> str:
    """Return the **tenth** shelf. <img src="x" onerror="document.title='broken'">

    - [a page](https://shop.example/shelf)
    - [not a page](javascript:alert(1))
    """
    return "## Shelf\\n\\n1. apples\\n2. `pears`\\n\\n<script>document.title = 'broken'</script>"


@tool(tags=["stock", "front"])
def shelf_2() -> str:
    """Return the second shelf."""
    return "plain"
'''
BOXES = '''
from mcp_bridge import tool


@tool
def box() -> str:
    """Return a box."""
    return "box"
'''


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Run a shop with two sources."""
    folder = tmp_path_factory.mktemp("shelves")
    (folder / "shelves.py").write_text(SHELVES)
    (folder / "boxes.py").write_text(BOXES)
    shop = PageServer(folder, SETTINGS)
    shop.start()
    yield shop
    shop.stop()


def list_names(page: Page) -> list[str]:
    return page.get_by_role("region", name="List of tools").locator("a .mono").all_inner_texts()


def test_tools_are_in_natural_order_and_in_groups(browser: Browser, shelves: PageServer) -> None:
    with open_page(browser, shelves) as page:
        expect(page.get_by_role("link", name=re.compile("^box"))).to_be_visible()
        assert list_names(page) == ["box", "shelf_2", "shelf_10"]
        group = page.get_by_role("region", name="shelves", exact=True)
        expect(group.get_by_role("link")).to_have_count(2)
        page.get_by_label("Groups").select_option("tag")
        expect(page.get_by_role("region", name="stock", exact=True).get_by_role("link")).to_have_count(2)
        expect(page.get_by_role("region", name="front", exact=True).get_by_role("link")).to_have_count(1)
        expect(page.get_by_role("region", name="without a tag").get_by_role("link")).to_have_count(1)
        page.get_by_label("Groups").select_option("none")
        assert list_names(page) == ["box", "shelf_2", "shelf_10"]


def test_markdown_is_rendered_without_html_and_without_other_links(browser: Browser, shelves: PageServer) -> None:
    with open_page(browser, shelves) as page:
        page.get_by_role("link", name="shelf_10").click()
        tool = page.get_by_role("region", name="Tool", exact=True)
        description = tool.locator(".markdown").first
        expect(description.get_by_role("strong")).to_have_text("tenth")
        expect(description).to_contain_text('<img src="x"')
        link = description.get_by_role("link")
        expect(link).to_have_count(1)
        expect(link).to_have_attribute("href", "https://shop.example/shelf")
        expect(link).to_have_attribute("rel", "noopener noreferrer")
        tool.get_by_role("button", name="Call tool").click()
        text = tool.get_by_role("region", name="Result", exact=True).get_by_role("region", name="Text")
        expect(text.locator(".heading")).to_have_text("Shelf")
        expect(text.get_by_role("listitem")).to_have_text(["apples", "pears"])
        expect(text).to_contain_text("<script>")
        assert page.locator("main img, main script, main .markdown [href^=javascript]").count() == 0
        assert page.title() == "Shop"


def test_the_only_tool_opens_itself(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "boxes.py").write_text(BOXES)
    shop = PageServer(tmp_path, SETTINGS.replace("  - {type: python, path: shelves.py}\n", ""))
    shop.start()
    with open_page(browser, shop) as page:
        expect(page.get_by_role("heading", name="box")).to_be_visible()
        expect(page.get_by_role("button", name="Call tool")).to_be_visible()
    shop.stop()


def test_questions_for_yes_or_no_are_two_buttons(page: Page) -> None:
    page.get_by_role("link", name="close_shop").click()
    page.get_by_role("button", name="Call tool").click()
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result.get_by_text("Close the shop?")).to_be_visible()
    result.get_by_role("button", name="Yes").click()
    expect(result.get_by_text("Leave the lights on?")).to_be_visible()
    result.get_by_role("button", name="No", exact=True).click()
    expect(result).to_contain_text("Closed, with lights: False.")


def test_the_user_answers_in_place_of_the_model(page: Page) -> None:
    page.get_by_role("link", name="describe").click()
    page.get_by_label("item").fill("pears")
    page.get_by_role("button", name="Call tool").click()
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result.get_by_label("System prompt")).to_have_text("You sell fruit.")
    expect(result.get_by_role("region", name="Message of the user")).to_contain_text("Describe pears in one word.")
    expect(result.get_by_role("button", name="Answer")).to_be_disabled()
    result.get_by_label("Answer of the model").fill("juicy")
    result.get_by_role("button", name="Answer").click()
    expect(result).to_contain_text("pears: juicy")


def test_a_narrow_screen_has_a_menu(browser: Browser, server: PageServer) -> None:
    with open_page(browser, server, viewport={"width": 360, "height": 700}) as page:
        menu = page.get_by_role("button", name="Tools, menu")
        expect(menu).to_have_attribute("aria-expanded", "false")
        expect(page.get_by_role("link", name="Settings")).to_be_hidden()
        menu.click()
        page.get_by_role("link", name="Settings").click()
        expect(page.get_by_role("heading", name="Settings", level=1)).to_be_visible()
        expect(page.get_by_role("button", name="Settings, menu")).to_have_attribute("aria-expanded", "false")
