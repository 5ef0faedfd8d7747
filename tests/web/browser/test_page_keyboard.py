"""The page without a mouse, on a narrow screen, and in dark and light colours."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect

from tests.kits.web.browser import open_page
from tests.kits.web.page_server import OtherClients, PageServer


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_a_tool_is_called_without_a_mouse(page: Page) -> None:
    expect(page.get_by_role("link", name="take")).to_be_visible()
    press(page, "/")
    expect(page.get_by_role("searchbox", name="Search tools")).to_be_focused()
    page.keyboard.type("take items")
    expect(page.get_by_role("region", name="List of tools").get_by_role("link")).to_have_count(1)
    press(page, "Tab", "Enter")
    expect(page.get_by_role("tab", name="Try it")).to_be_visible()
    press(page, "Tab", "Tab")
    expect(page.get_by_label("item")).to_be_focused()
    page.keyboard.type("apples")
    press(page, "Control+Enter")
    expect(page.get_by_label("Structured content")).to_contain_text("apples")
    expect(page.get_by_role("status").filter(has_text="take: the call succeeded")).to_be_attached()
    press(page, "Escape")
    expect(page.get_by_label("item")).not_to_be_focused()
    press(page, "Escape")
    expect(page.get_by_role("heading", name="take")).to_have_count(0)


def test_letters_after_g_open_the_panels(page: Page) -> None:
    expect(page.get_by_role("link", name="take")).to_be_visible()
    # The page accepts the second letter only for a short time.
    page.clock.set_fixed_time(0)
    for letter, panel in {"c": "Calls", "i": "Inbox", "s": "Sources", "e": "Settings", "t": "Tools"}.items():
        press(page, "g", letter)
        expect(page.get_by_role("heading", name=panel, level=1)).to_be_attached()
        expect(page.get_by_role("main")).to_be_focused()


def test_letters_in_a_field_are_text(page: Page) -> None:
    search = page.get_by_role("searchbox", name="Search tools")
    search.press_sequentially("gc?/")
    expect(search).to_have_value("gc?/")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_question_mark_shows_the_shortcuts(page: Page) -> None:
    expect(page.get_by_role("link", name="take")).to_be_visible()
    press(page, "?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Inbox")
    press(page, "Escape")
    expect(dialog).to_have_count(0)


def test_tabs_are_changed_with_arrow_keys(page: Page) -> None:
    page.get_by_role("link", name="take").click()
    page.get_by_role("tab", name="Try it").focus()
    press(page, "ArrowRight")
    expect(page.get_by_role("tab", name="Schema")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Schema")).to_be_visible()
    press(page, "ArrowLeft")
    expect(page.get_by_role("tabpanel", name="Try it")).to_be_visible()


def test_the_tab_key_reaches_all_controls_and_leaves_the_page(page: Page, clients: OtherClients) -> None:
    clients.call("take", {"item": "apples"}).result()
    page.get_by_role("link", name="Calls").click()
    expect(page.get_by_role("grid").get_by_role("row").nth(1)).to_contain_text("take")
    page.get_by_role("link", name="Skip to the content").focus()
    elements: list[str] = []
    while len(elements) < 60 and not (elements and elements[-1].startswith("<body")):
        press(page, "Tab")
        elements.append(page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
    assert any("<tr" in element for element in elements)
    assert any("Pause" in element for element in elements)
    assert len(elements) < 60, "the focus does not leave the page"


def test_rows_of_calls_are_reached_with_arrow_keys(page: Page, clients: OtherClients) -> None:
    clients.call("show").result()
    clients.call("take", {"item": "apples"}).result()
    page.get_by_role("link", name="Calls").click()
    rows = page.get_by_role("grid").get_by_role("row")
    expect(rows.nth(2)).to_contain_text("show")
    expect(rows.nth(1)).to_contain_text("take")
    rows.nth(1).focus()
    press(page, "ArrowDown")
    expect(rows.nth(2)).to_be_focused()
    press(page, "Enter")
    expect(page.get_by_role("region", name="Call", exact=True)).to_contain_text("show")
    press(page, "Escape")
    expect(page.get_by_role("region", name="Call", exact=True)).to_have_count(0)


def test_no_panel_is_wider_than_a_narrow_screen(browser: Browser, server: PageServer) -> None:
    with open_page(browser, server, viewport={"width": 360, "height": 700}) as page:
        expect(page.get_by_role("link", name="take")).to_be_visible()
        for panel in ("tools/order", "calls", "inbox", "sources", "clients", "install", "lint", "settings"):
            page.goto(f"{server.base}/#/{panel}")
            expect(page.get_by_role("main").get_by_role("heading").first).to_be_attached()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, panel
            assert page.get_by_role("main").evaluate("main => main.scrollWidth <= main.clientWidth"), panel


def test_a_narrow_screen_shows_the_list_or_the_tool(browser: Browser, server: PageServer) -> None:
    with open_page(browser, server, viewport={"width": 360, "height": 700}) as page:
        page.get_by_role("link", name="take").click()
        expect(page.get_by_role("searchbox", name="Search tools")).to_be_hidden()
        page.get_by_role("link", name="All tools").click()
        expect(page.get_by_role("searchbox", name="Search tools")).to_be_visible()


def test_colours_follow_the_system_or_the_switch(browser: Browser, server: PageServer) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    with open_page(browser, server, color_scheme="dark") as page:
        expect(page.get_by_role("link", name="take")).to_be_visible()
        dark = page.evaluate(background)
        page.get_by_label("Colours").select_option("light")
        assert page.evaluate(background) == "rgb(255, 255, 255)" != dark
        # The choice survives a reload.
        page.reload()
        expect(page.get_by_label("Colours")).to_have_value("light")
        assert page.evaluate(background) == "rgb(255, 255, 255)"
