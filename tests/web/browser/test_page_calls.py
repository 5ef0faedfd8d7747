"""The Calls panel: calls of all clients appear while they run, and thousands of them do not make the page slow."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.kits.web.page_server import LEGACY, STATELESS, OtherClients, PageServer

MANY = 10_000
MOST_ROWS = 80
"""The most rows that a table of 800 pixels needs, with those above and below the visible ones."""


@pytest.fixture
def grid(page: Page) -> Locator:
    """Return the table of calls."""
    page.get_by_role("link", name="Calls").click()
    return page.get_by_role("grid", name="Calls, newest first")


@pytest.mark.parametrize("mode", [LEGACY, STATELESS])
def test_a_call_of_another_client_shows_arguments_result_client_and_layers(
    page: Page, grid: Locator, clients: OtherClients, mode: str
) -> None:
    clients.call("take", {"item": "pears", "amount": 2}, mode).result()
    row = grid.get_by_role("row").filter(has_text="take").first
    expect(row).to_contain_text("ok")
    row.click()
    call = page.get_by_role("region", name="Call", exact=True)
    assert json.loads(call.get_by_label("Arguments").inner_text()) == {"item": "pears", "amount": 2}
    assert json.loads(call.get_by_label("Result").inner_text()) == {"apples": 12, "pears": 1}
    # The official client has the name "mcp".
    expect(call).to_contain_text("mcp")
    layers = call.get_by_role("listitem").all_inner_texts()
    assert [name for name in ("validate input", "run handler") if any(name in layer for layer in layers)] == [
        "validate input",
        "run handler",
    ]


def test_a_running_call_shows_its_progress_and_then_its_duration(
    page: Page, grid: Locator, clients: OtherClients, server: PageServer
) -> None:
    counting = clients.call("count", {"to": 4})
    row = grid.get_by_role("row").filter(has_text="count").first
    expect(row.get_by_role("progressbar")).to_have_js_property("value", 3)
    expect(page.get_by_text("1 running")).to_be_visible()
    (server.folder / "release").touch()
    counting.result()
    (server.folder / "release").unlink()
    expect(row).to_contain_text("ok")
    expect(row.get_by_role("progressbar")).to_have_count(0)
    expect(row).to_contain_text("s")


def test_calls_are_filtered_by_text_and_state(page: Page, grid: Locator, clients: OtherClients) -> None:
    clients.call("take", {"item": "figs"}).result()
    clients.call("show").result()
    page.get_by_role("searchbox", name="Filter calls").fill("figs")
    # The header is a row, too.
    expect(grid.get_by_role("row")).to_have_count(2)
    page.get_by_label("State", exact=True).select_option("ok")
    expect(page.get_by_text("0 calls shown")).to_be_visible()
    page.get_by_label("State", exact=True).select_option("error")
    expect(page.get_by_text("1 call shown")).to_be_visible()


def test_a_paused_list_does_not_move(page: Page, grid: Locator, clients: OtherClients) -> None:
    clients.call("take", {"item": "apples"}).result()
    expect(grid.get_by_role("row").filter(has_text="take").first).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    before = grid.inner_text()
    clients.call("show").result()
    page.get_by_role("link", name=re.compile("^Sources")).click()
    page.get_by_role("link", name="Calls").click()
    assert grid.inner_text() == before
    page.get_by_role("button", name="Resume").click()
    expect(grid.get_by_role("row").nth(1)).to_contain_text("show")


def test_latencies_are_listed_for_all_tools(page: Page, grid: Locator, clients: OtherClients) -> None:
    clients.call("take", {"item": "apples"}).result()
    expect(grid.get_by_role("row").filter(has_text="take").first).to_contain_text("ok")
    page.get_by_role("button", name="Latency").click()
    latency = page.get_by_role("region", name="Latency of the tools")
    latency.get_by_role("combobox").select_option("take")
    expect(latency.get_by_role("img", name="of take")).to_be_visible()
    expect(latency.get_by_role("row").filter(has_text="take").first).to_contain_text("ms")


def test_the_page_keeps_up_with_ten_thousand_calls_of_a_server(
    page: Page, grid: Locator, clients: OtherClients
) -> None:
    clients.call("refill", {"times": MANY}).result()
    foot = page.get_by_role("region", name="Calls", exact=True).get_by_role("paragraph")
    expect(foot).to_contain_text("left out under load")
    # An omitted call does not appear to run for ever.
    expect(foot).not_to_contain_text("running")
    assert grid.get_by_role("row").count() < MOST_ROWS


def test_ten_thousand_calls_in_the_list_render_only_the_visible_rows(page: Page, grid: Locator) -> None:
    def make_event(number: int) -> str:
        call = {"id": f"old-{number}", "tool": f"tool-{number}", "kind": "tool", "client": "c1", "principal": None}
        call |= {"started": number, "duration_ms": 1.0, "state": "ok", "code": None, "progress": None}
        call |= {"arguments": {"number": number}, "result": "done", "layers": []}
        return f"id: x-{number}\nevent: call\ndata: {json.dumps(call)}\n\n"

    events = "".join(make_event(number) for number in range(1, MANY + 101))
    page.route("**/page/events", lambda route: route.fulfill(body=events, content_type="text/event-stream"), times=1)
    # The stream ends, so the page reads the state again; calls in it would be newer.
    page.route("**/page/state", lambda route: route.fulfill(json={**route.fetch().json(), "calls": []}))
    page.reload()
    # The page forgets older calls.
    expect(page.get_by_text(f"{MANY:,} calls shown")).to_be_visible()
    assert grid.get_by_role("row").count() < MOST_ROWS
    newest = grid.get_by_role("row").nth(1)
    newest.focus()
    page.keyboard.press("End")
    oldest = grid.get_by_role("row").filter(has_text="tool-101")
    expect(oldest).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Call", exact=True).get_by_label("Arguments")).to_contain_text("101")
    page.get_by_role("searchbox", name="Filter calls").fill("tool-9999")
    expect(page.get_by_text("1 call shown")).to_be_visible()
    page.unroute_all(behavior="wait")


def test_rows_stay_in_place_while_new_calls_arrive(page: Page, grid: Locator, clients: OtherClients) -> None:
    clients.call("refill", {"times": 90}).result()
    clients.call("break_down").result()
    # This call arrives after the 91 calls before it.
    expect(grid.get_by_role("row").nth(1)).to_contain_text("break_down")
    frame = page.locator(".grid-frame")
    frame.evaluate("frame => { frame.scrollTop = 1500 }")
    # This row is rendered only after scrolling.
    identity = grid.locator("tr[aria-rowindex='55']").get_attribute("data-id")
    place = page.locator(f'tr[data-id="{identity}"]').bounding_box()
    count = page.get_by_text("calls shown").inner_text()
    clients.call("show").result()
    expect(page.get_by_text("calls shown")).not_to_have_text(count)
    assert page.locator(f'tr[data-id="{identity}"]').bounding_box() == place
