"""Resources and prompts: they are listed, their arguments have suggestions, and their results are shown."""

from __future__ import annotations

import json

from playwright.sync_api import Locator, Page, expect


def open_entry(page: Page, panel: str, name: str) -> Locator:
    page.get_by_role("link", name=panel).click()
    page.get_by_role("link", name=name).click()
    return page.get_by_role("region", name=panel.removesuffix("s"), exact=True)


def list_suggestions(entry: Locator, label: str) -> Locator:
    field = entry.get_by_role("combobox", name=label)
    field.focus()
    return entry.page.locator(f"datalist[id='{field.get_attribute('list')}'] option")


def test_a_resource_is_read(page: Page) -> None:
    entry = open_entry(page, "Resources", "read_notes")
    expect(entry).to_contain_text("What is planned for today.")
    expect(entry).to_contain_text("text/markdown")
    entry.get_by_role("button", name="Read").click()
    text = entry.get_by_role("region", name="Result", exact=True).get_by_role("region", name="Text")
    expect(text.locator(".heading")).to_have_text("Today")
    expect(text.get_by_role("listitem")).to_have_count(2)
    expect(text.get_by_role("strong")).to_have_text("pears")


def test_the_variables_of_a_template_have_suggestions_and_become_its_uri(page: Page) -> None:
    entry = open_entry(page, "Resources", "read_stock")
    options = list_suggestions(entry, "item")
    expect(options).to_have_count(2)
    entry.get_by_role("combobox", name="item").fill("pea")
    expect(options).to_have_count(1)
    expect(options).to_have_attribute("value", "pears")
    entry.get_by_role("combobox", name="item").fill("pears")
    expect(list_suggestions(entry, "unit")).to_have_count(2)
    entry.get_by_role("combobox", name="unit").fill("boxes")
    entry.get_by_role("combobox", name="note").fill("a & b")
    expect(entry.get_by_text("stock://pears/boxes?note=a%20%26%20b")).to_be_visible()
    entry.get_by_role("button", name="Read").click()
    result = entry.get_by_role("region", name="Result", exact=True)
    content = json.loads(result.get_by_label("Text in JSON").inner_text())
    assert content == {"item": "pears", "unit": "boxes", "left": 3, "note": "a & b"}


def test_a_prompt_is_filled_in_with_suggestions_and_shows_its_messages(page: Page) -> None:
    entry = open_entry(page, "Prompts", "advertise")
    expect(entry).to_contain_text("What to praise.")
    expect(list_suggestions(entry, "item")).to_have_count(2)
    entry.get_by_role("combobox", name="item").fill("plums")
    entry.get_by_role("combobox", name="tone").fill("loud")
    entry.get_by_role("button", name="Get prompt").click()
    message = entry.get_by_role("region", name="Message of the user")
    expect(message).to_contain_text("Praise our plums in a loud tone.")


def test_the_problem_of_an_invalid_argument_is_shown(page: Page) -> None:
    entry = open_entry(page, "Prompts", "advertise")
    entry.get_by_role("combobox", name="item").fill("plums")
    entry.get_by_role("combobox", name="tone").fill("silent")
    entry.get_by_role("button", name="Get prompt").click()
    expect(entry.get_by_role("region", name="Result", exact=True).get_by_role("alert")).to_contain_text("tone")
