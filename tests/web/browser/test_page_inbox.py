"""The Inbox: approvals and questions of other clients' calls are answered at the page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.kits.web.page_server import LEGACY, STATELESS, OtherClients

BOTH_ERAS = pytest.mark.parametrize("mode", [LEGACY, STATELESS])


@pytest.fixture
def inbox(page: Page) -> Locator:
    """Return the Inbox, which is empty at first."""
    page.get_by_role("link", name="Inbox").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    return page.get_by_role("main")


def read_text(result: object) -> str:
    return result.content[0].text


@BOTH_ERAS
def test_a_call_that_the_user_allows_runs(page: Page, inbox: Locator, clients: OtherClients, mode: str) -> None:
    taking = clients.call("take", {"item": "apples", "amount": 6}, mode)
    expect(inbox.get_by_text("Take 6 items?")).to_be_visible()
    expect(inbox.get_by_label("Arguments of the call")).to_contain_text('"amount": 6')
    expect(page).to_have_title("(1) Shop")
    inbox.get_by_role("button", name="Allow once").click()
    assert taking.result().structured_content == {"apples": 6, "pears": 3}
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    page.get_by_role("link", name="Decisions").click()
    decision = page.get_by_role("table").get_by_role("row").nth(1)
    expect(decision).to_contain_text(re.compile("take.*allow.*this call.*user on the page"))


@BOTH_ERAS
def test_a_call_that_the_user_denies_does_not_run(page: Page, inbox: Locator, clients: OtherClients, mode: str) -> None:
    taking = clients.call("take", {"item": "apples", "amount": 7}, mode)
    inbox.get_by_role("button", name="Deny").click()
    result = taking.result()
    assert result.is_error
    assert read_text(result) == "Tool 'take' was not approved."
    page.get_by_role("link", name="Decisions").click()
    expect(page.get_by_role("table").get_by_role("row").nth(1)).to_contain_text("deny")


def test_characters_that_would_hide_an_argument_are_escaped(inbox: Locator, clients: OtherClients) -> None:
    taking = clients.call("take", {"item": "apples\u202e\U000e0041", "amount": 11})
    expect(inbox.get_by_label("Arguments of the call")).to_contain_text(r'"item": "apples\u202e\udb40\udc41"')
    inbox.get_by_role("button", name="Deny").click()
    assert taking.result().is_error


def test_a_question_that_has_just_moved_ignores_clicks(page: Page, inbox: Locator, clients: OtherClients) -> None:
    first = clients.call("take", {"item": "apples", "amount": 6})
    expect(inbox.get_by_text("Take 6 items?")).to_be_visible()
    second = clients.call("take", {"item": "apples", "amount": 7})
    expect(inbox.get_by_text("Take 7 items?")).to_be_visible()
    allow = inbox.get_by_role("button", name="Allow once")
    expect(allow.nth(1)).to_be_enabled()
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 3600)
    inbox.get_by_role("button", name="Deny").first.click()
    assert first.result().is_error
    expect(allow).to_have_count(1)
    expect(allow).to_be_disabled()
    page.clock.run_for(1000)
    allow.click()
    assert not second.result().is_error


def test_a_call_that_is_always_allowed_does_not_ask_again(inbox: Locator, clients: OtherClients) -> None:
    arguments = {"item": "apples", "amount": 8}
    taking = clients.call("take", arguments, LEGACY)
    inbox.get_by_role("button", name="Allow always").click()
    assert not taking.result().is_error
    assert not clients.call("take", arguments, STATELESS).result().is_error
    expect(inbox.get_by_text("Nothing waits for you.")).to_be_visible()


@BOTH_ERAS
def test_a_question_of_a_call_whose_client_cannot_ask_is_a_form(
    inbox: Locator, clients: OtherClients, mode: str
) -> None:
    reserving = clients.call("reserve", {"item": "pears"}, mode)
    expect(inbox.get_by_text("For how long do you want pears?")).to_be_visible()
    inbox.get_by_label("Days").fill("many")
    inbox.get_by_role("button", name="Answer").click()
    expect(inbox.get_by_role("alert")).to_contain_text("not valid")
    inbox.get_by_label("Days").fill("4")
    inbox.get_by_role("button", name="Answer").click()
    assert read_text(reserving.result()) == "Reserved pears for 4 days."


def test_an_answer_in_another_tab_removes_the_question(page: Page, inbox: Locator, clients: OtherClients) -> None:
    other_tab = page.context.new_page()
    other_tab.goto(page.url)
    token = page.evaluate("Object.entries(sessionStorage)[0]")
    other_tab.evaluate("([key, value]) => sessionStorage.setItem(key, value)", token)
    other_tab.reload()
    taking = clients.call("take", {"item": "apples", "amount": 9}, LEGACY)
    expect(inbox.get_by_text("Take 9 items?")).to_be_visible()
    other_tab.get_by_role("button", name="Deny").click()
    expect(inbox.get_by_text("Nothing waits for you.")).to_be_visible()
    assert taking.result().is_error


def test_an_approval_for_a_call_of_the_page_is_shown_next_to_the_call(page: Page) -> None:
    page.get_by_role("link", name="take").click()
    page.get_by_label("item").fill("apples")
    page.get_by_role("textbox", name="amount").fill("10")
    page.get_by_role("button", name="Call tool").click()
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result.get_by_text("Take 10 items?")).to_be_visible()
    page.get_by_role("link", name="Inbox").click()
    expect(page.get_by_role("main").get_by_role("listitem")).to_have_count(1)
    page.get_by_role("button", name="Allow once").click()
    page.go_back()
    expect(result.get_by_label("Structured content")).to_contain_text('"apples": 2')


def test_an_identical_question_of_another_client_is_shown_in_addition(page: Page, clients: OtherClients) -> None:
    page.get_by_role("link", name="take").click()
    page.get_by_label("item").fill("apples")
    page.get_by_role("textbox", name="amount").fill("12")
    page.get_by_role("button", name="Call tool").click()
    expect(page.get_by_role("region", name="Result", exact=True).get_by_text("Take 12 items?")).to_be_visible()
    taking = clients.call("take", {"item": "apples", "amount": 12})
    page.get_by_role("link", name="Inbox").click()
    cards = page.get_by_role("main").get_by_role("listitem")
    for remaining in (2, 1):
        expect(cards).to_have_count(remaining)
        page.get_by_role("button", name="Deny").first.click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    assert taking.result().is_error


def test_a_question_that_arrives_while_the_state_is_read_stays(
    page: Page, inbox: Locator, clients: OtherClients
) -> None:
    routes: list[tuple[Route, dict]] = []
    page.route("**/page/state", lambda route: routes.append((route, route.fetch().json())))
    # The page reads the state because of the new client.
    clients.call("show", mode=LEGACY).result()
    while not routes:
        page.wait_for_timeout(20)
    taking = clients.call("take", {"item": "apples", "amount": 9})
    expect(inbox.get_by_text("Take 9 items?")).to_be_visible()
    route, state = routes[0]
    assert state["questions"] == []
    route.fulfill(json=state | {"server": state["server"] | {"title": "Renamed"}})
    expect(page).to_have_title("(1) Renamed")
    page.unroute("**/page/state")
    inbox.get_by_role("button", name="Deny").click()
    assert taking.result().is_error
