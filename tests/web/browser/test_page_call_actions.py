"""From a call onwards: it is called again, edited, copied as a program, exported, and shown as messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.kits.constants import TIMEOUT
from tests.kits.web.browser import open_page
from tests.kits.web.page_server import TOKEN, OtherClients, PageServer


@pytest.fixture
def page(browser: Browser, server: PageServer) -> Iterator[Page]:
    """Open the page in a browser that lets it use the clipboard, and the test read it."""
    permissions = ["clipboard-read", "clipboard-write"]
    with open_page(browser, server, permissions=permissions, accept_downloads=True) as open_tab:
        yield open_tab


@pytest.fixture
def call(page: Page, clients: OtherClients) -> Locator:
    """Return the details of a call that another client has made."""
    clients.call("take", {"item": "pears", "amount": 2}).result()
    page.get_by_role("link", name="Calls").click()
    page.get_by_role("grid", name="Calls, newest first").get_by_role("row").filter(has_text="take").first.click()
    return page.get_by_role("region", name="Call", exact=True)


def test_a_call_of_another_client_is_called_again(page: Page, call: Locator) -> None:
    call.get_by_role("link", name="Call again").click()
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result).to_contain_text('"pears": 1')
    expect(page.get_by_label("amount")).to_have_value("2")


def test_a_call_of_another_client_is_edited_before_it_is_called(page: Page, call: Locator) -> None:
    call.get_by_role("link", name="Edit and call").click()
    page.get_by_label("amount").fill("1")
    expect(page.get_by_role("region", name="Result", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Call tool").click()
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text('"pears": 2')


def test_a_call_whose_arguments_are_redacted_can_only_be_edited(page: Page, clients: OtherClients) -> None:
    clients.call("order", {"lines": [], "handover": {"kind": "pickup", "hour": 9}, "labels": {"pin": "x"}}).result()
    secret_labels = {"door_password": "hunter22"}
    clients.call("order", {"lines": [], "handover": {"kind": "pickup", "hour": 9}, "labels": secret_labels}).result()
    page.get_by_role("link", name="Calls").click()
    rows = page.get_by_role("grid", name="Calls, newest first").get_by_role("row").filter(has_text="order")
    details = page.get_by_role("region", name="Call", exact=True)
    rows.nth(1).click()
    expect(details.get_by_role("link", name="Call again")).to_be_visible()
    rows.nth(0).click()
    expect(details.get_by_role("link", name="Call again")).to_have_count(0)
    expect(details).to_contain_text("Parts of the arguments are redacted")
    details.get_by_role("link", name="Edit and call").click()
    expect(page.get_by_label("JSON")).to_have_value(re.compile(r"\[secret\]"))


def copy_as(page: Page, place: Locator, title: str) -> str:
    place.get_by_text("Copy as").click()
    place.get_by_role("button", name=title, exact=True).click()
    expect(place.get_by_role("button", name=f"{title}: copied")).to_be_visible()
    text: str = page.evaluate("navigator.clipboard.readText()")
    assert TOKEN not in text
    return text


def run_program(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "MCP_BRIDGE_TOKEN": TOKEN, "SHOP_TOKEN": TOKEN}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("title", ["mcp-bridge call", "curl"])
def test_a_call_is_copied_as_a_command(page: Page, call: Locator, server: PageServer, title: str) -> None:
    output = run_program(["sh", "-c", copy_as(page, call, title)], server.folder)
    assert "pears" in output
    assert "12" in output


def test_a_call_is_copied_as_a_program(page: Page, call: Locator, server: PageServer) -> None:
    program = copy_as(page, call, "Python")
    assert "'pears': 1" in run_program([sys.executable, "-c", program], server.folder)


def test_a_call_is_copied_as_a_test(page: Page, call: Locator, server: PageServer) -> None:
    text = copy_as(page, call, "pytest")
    assert 'assert result.structured_content == {"apples": 12, "pears": 1}' in text
    (server.folder / "test_copied.py").write_text(text)
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", "."]
    assert "1 passed" in run_program([sys.executable, "-m", "pytest", *options, "test_copied.py"], server.folder)


def test_quotes_and_secrets_do_not_break_or_leak_in_a_copied_command(page: Page, server: PageServer) -> None:
    page.get_by_role("link", name="constructor").click()
    secrets = {"authorization": "Bearer hunter23", "password": "hunter22"}
    page.get_by_label("JSON").fill(json.dumps({"constructor": "it's $HOME \"\\\n`id`", **secrets}))
    page.get_by_role("button", name="Call tool").click()
    result = page.get_by_role("region", name="Result", exact=True)
    text = copy_as(page, result, "mcp-bridge call")
    assert "hunter" not in text
    result.get_by_text(re.compile("^Messages")).click()
    expect(result.get_by_label("Message 1, sent")).to_contain_text('"password": "[secret]"')
    command, count = re.subn(r', ?"(password|authorization)": ?"\[secret\]"', "", text)
    assert count == 2
    assert "it's $HOME" in run_program(["sh", "-c", command], server.folder)


def test_the_shown_calls_are_exported_without_secrets(page: Page, clients: OtherClients) -> None:
    secret_labels = {"door_password": "hunter22"}
    clients.call("order", {"lines": [], "handover": {"kind": "pickup", "hour": 9}, "labels": secret_labels}).result()
    clients.call("show").result()
    page.get_by_role("link", name="Calls").click()
    page.get_by_role("searchbox", name="Filter calls").fill("pickup")
    expect(page.get_by_role("grid").get_by_role("row").filter(has_text="show")).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    text = Path(download.value.path()).read_text()
    data = json.loads(text)
    assert data["server"]["name"] == "shop"
    assert {call["tool"] for call in data["calls"]} == {"order"}
    assert "hunter22" not in text


def test_the_messages_of_a_call_and_its_size_are_shown(page: Page) -> None:
    page.get_by_role("link", name="take").click()
    expect(page.get_by_title("The list of all tools, as each model receives it")).to_contain_text("tokens")
    page.get_by_label("item").fill("pears")
    page.get_by_role("button", name="Call tool").click()
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result).to_contain_text("tokens")
    result.get_by_text("Messages (2)").click()
    request = json.loads(result.get_by_label("Message 1, sent").inner_text())
    response = json.loads(result.get_by_label("Message 2, received").inner_text())
    assert (request["method"], request["params"]["arguments"]["item"]) == ("tools/call", "pears")
    assert response["id"] == request["id"]
    assert response["result"]["structuredContent"] == {"apples": 12, "pears": 2}
