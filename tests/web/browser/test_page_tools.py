"""The Tools panel: tools are found and called, by a form or by JSON, and their questions and results are shown."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.kits.web.page_server import PageServer


def open_tool(page: Page, name: str) -> Locator:
    """Select a tool in the list, and return its part of the page."""
    page.get_by_role("link", name=name).first.click()
    tool = page.get_by_role("region", name="Tool", exact=True)
    expect(tool.get_by_role("heading", name=name, exact=True)).to_be_visible()
    return tool


def call(tool: Locator) -> Locator:
    """Press the button, and return the part with the result."""
    tool.get_by_role("button", name="Call tool").click()
    return tool.get_by_role("region", name="Result", exact=True)


def expect_json(tool: Locator, arguments: dict) -> None:
    """Wait for these arguments in the JSON view."""
    expect(tool.get_by_label("JSON", exact=True)).to_have_value(json.dumps(arguments, indent=2))


def test_a_tool_is_found_by_words_of_its_description(page: Page) -> None:
    page.get_by_role("searchbox", name="Search tools").fill("shelf stock")
    expect(page.get_by_role("region", name="List of tools").get_by_role("link")).to_have_count(1)
    expect(page.get_by_role("link", name="take")).to_be_visible()
    page.get_by_role("searchbox", name="Search tools").fill("nothing like this")
    expect(page.get_by_text("No tool matches")).to_be_visible()


def test_a_form_calls_a_tool_and_shows_its_result(page: Page) -> None:
    tool = open_tool(page, "take")
    # The default is filled in.
    expect(tool.get_by_label("amount")).to_have_value("1")
    tool.get_by_label("item").fill("apples")
    tool.get_by_label("amount").fill("2")
    result = call(tool)
    expect(result.get_by_text("ok", exact=True)).to_be_visible()
    assert json.loads(result.get_by_label("Structured content").inner_text()) == {"apples": 10, "pears": 3}


def test_the_enter_key_calls_and_shift_enter_makes_a_new_line(page: Page) -> None:
    tool = open_tool(page, "take")
    tool.get_by_label("item").press_sequentially("two")
    tool.get_by_label("item").press("Shift+Enter")
    tool.get_by_label("item").press_sequentially("lines")
    tool.get_by_label("item").press("Enter")
    result = tool.get_by_role("region", name="Result", exact=True)
    expect(result.get_by_text("too_few")).to_be_visible()
    expect(result.get_by_text("Take fewer.")).to_be_visible()
    expect_json(tool, {"item": "two\nlines", "amount": 1})


def test_problems_of_the_server_are_shown_at_their_fields(page: Page) -> None:
    tool = open_tool(page, "take")
    tool.get_by_label("amount").fill("many")
    call(tool)
    problems = tool.get_by_role("list", name="Problems of the arguments")
    expect(problems.get_by_role("listitem")).to_have_count(2)
    expect(tool.get_by_label("amount")).to_have_accessible_description("How many. expected type integer, got string")
    expect(tool.get_by_label("item")).to_have_accessible_description(
        "What to take, such as apples. required field missing"
    )
    problems.get_by_role("button", name="$.item").click()
    expect(tool.get_by_label("item")).to_be_focused()


def test_the_form_and_the_json_follow_each_other(page: Page) -> None:
    tool = open_tool(page, "take")
    editor = tool.get_by_label("JSON", exact=True)
    editor.fill('{"item": "pears", "amount": 3}')
    expect(tool.get_by_label("item")).to_have_value("pears")
    tool.get_by_label("amount").fill("2")
    expect_json(tool, {"item": "pears", "amount": 2})
    editor.fill('{"item": ')
    expect(tool.get_by_text("Not valid JSON")).to_be_visible()
    expect(tool.get_by_role("button", name="Call tool")).to_be_disabled()
    # The form replaces invalid values.
    tool.get_by_label("item").fill("apples")
    expect_json(tool, {"item": "apples", "amount": 2})
    expect(tool.get_by_role("button", name="Call tool")).to_be_enabled()


def test_integers_that_a_browser_would_round_keep_their_digits(page: Page) -> None:
    tool = open_tool(page, "order")
    arguments = '{"lines": [], "handover": {"kind": "pickup", "hour": 9}, "extra": {"id": 9007199254740993}}'
    tool.get_by_label("JSON", exact=True).fill(arguments)
    content = call(tool).get_by_label("Structured content")
    expect(content).to_contain_text('"id": 9007199254740993')
    tool = open_tool(page, "take")
    tool.get_by_label("amount").fill("-9007199254740993")
    expect(tool.get_by_label("JSON", exact=True)).to_have_value(re.compile("-9007199254740993"))
    call(tool)
    expect(tool.get_by_label("amount")).to_have_accessible_description(re.compile("-9007199254740993"))


def test_arguments_without_fields_are_sent_too(page: Page) -> None:
    tool = open_tool(page, "take")
    tool.get_by_label("JSON", exact=True).fill('{"item": "pears", "colour": "green"}')
    call(tool)
    expect(tool.get_by_role("list", name="Problems of the arguments")).to_contain_text("$.colour")


def test_a_form_covers_lists_choices_alternatives_and_null(page: Page) -> None:
    tool = open_tool(page, "order")
    tool.get_by_role("button", name="Add to lines").click()
    tool.get_by_label("item").select_option("plums")
    tool.get_by_label("note").fill("ripe")
    tool.get_by_role("button", name="Add to lines").click()
    tool.get_by_label("item").nth(1).select_option("pears")
    tool.get_by_role("group", name="lines 2").get_by_label("null").check()
    tool.get_by_label("Type of handover").select_option("kind: delivery")
    tool.get_by_label("street").fill("Rua Augusta 1")
    tool.get_by_label("fragile").check()
    tool.get_by_role("button", name="Set labels").click()
    tool.get_by_label("Name of another property").fill("colour")
    tool.get_by_role("button", name="Add property").click()
    tool.get_by_label("colour", exact=False).first.fill("red")
    tool.get_by_label("is_paid").check()
    tool.get_by_label("can_wait").select_option("false")
    tool.get_by_label("extra").fill('{"floors": [1, 2]}')
    result = call(tool)
    expect(result.get_by_text("ok", exact=True)).to_be_visible()
    assert json.loads(result.get_by_label("Structured content").inner_text()) == {
        "lines": [{"item": "plums", "amount": 1, "note": "ripe"}, {"item": "pears", "amount": 1, "note": None}],
        "handover": {"kind": "delivery", "address": {"street": "Rua Augusta 1", "city": "Lisbon", "floor": None}},
        "tags": ["fragile"],
        "labels": {"colour": "red"},
        "is_paid": True,
        "can_wait": False,
        "extra": {"floors": [1, 2]},
    }
    tool.get_by_role("button", name="Remove lines 1").click()
    tool.get_by_role("button", name="Leave out labels").click()
    editor = tool.get_by_label("JSON", exact=True)
    expect(editor).not_to_have_value(re.compile("plums|labels"))
    expect(editor).to_have_value(re.compile("pears"))


def test_tools_and_arguments_can_have_names_with_a_meaning_in_javascript(page: Page) -> None:
    tool = open_tool(page, "constructor")
    argument = tool.get_by_role("textbox", name="constructor")
    expect(argument).to_have_value("")
    argument.fill("an oven")
    expect(call(tool).get_by_label("Text", exact=True)).to_have_text("an oven")


def test_every_kind_of_content_is_shown(page: Page) -> None:
    result = call(open_tool(page, "show"))
    expect(result.get_by_text("A picture, a sound, a link and a file.")).to_be_visible()
    picture = result.get_by_role("img", name="Image, image/png")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => [image.naturalWidth, image.naturalHeight])") == [64, 32]
    sound = result.get_by_label("Audio, audio/wav")
    sound.evaluate("audio => audio.readyState > 0 || new Promise(resolve => audio.onloadedmetadata = resolve)")
    assert sound.evaluate("audio => audio.duration") == pytest.approx(0.1)
    expect(result.get_by_role("link", name="The catalog")).to_have_attribute("href", "https://shop.example/catalog")
    expect(result.get_by_text("Not a web page")).to_be_visible()
    expect(result.get_by_role("link", name="Not a web page")).to_have_count(0)
    assert json.loads(result.get_by_label("Text in JSON").inner_text()) == {"apples": 12}
    result.get_by_label("Show as MCP").check()
    assert '"resource_link"' in result.get_by_label("Result as MCP").inner_text()


def test_a_broken_tool_shows_its_code_and_a_hint(page: Page) -> None:
    result = call(open_tool(page, "break_down"))
    expect(result.get_by_text("internal_error")).to_be_visible()
    expect(result.get_by_label("Text", exact=True)).to_contain_text("reference")
    expect(result).not_to_contain_text("the shelf has collapsed")


def test_progress_and_logs_are_shown_until_the_call_ends(page: Page, server: PageServer) -> None:
    tool = open_tool(page, "count")
    tool.get_by_role("textbox", name="to").fill("9")
    result = call(tool)
    bar = result.get_by_role("progressbar", name="Progress of count")
    expect(bar).to_have_js_property("value", 8)
    expect(result.get_by_text("8 / 9")).to_be_visible()
    expect(result.get_by_text("counted 8")).to_be_visible()
    (server.folder / "release").touch()
    try:
        expect(result.get_by_text("Counted to 9.")).to_be_visible()
    finally:
        (server.folder / "release").unlink()
    expect(bar).to_have_count(0)
    result.get_by_text("Log of the call (8)").click()
    expect(result.get_by_label("Log of the call")).to_contain_text("info: at 8")


def test_a_call_is_cancelled_by_its_button(page: Page) -> None:
    tool = open_tool(page, "count")
    tool.get_by_role("textbox", name="to").fill("5")
    result = call(tool)
    expect(result.get_by_text("4 / 5")).to_be_visible()
    tool.get_by_role("button", name="Cancel call").click()
    expect(result.get_by_text("cancelled")).to_be_visible()
    page.get_by_role("link", name="Calls").click()
    rows = page.get_by_role("grid").get_by_role("row").filter(has_text="count")
    # The server has cancelled the call, too.
    expect(rows.first).to_contain_text("cancelled")


def test_a_call_continues_while_other_panels_are_shown(page: Page) -> None:
    tool = open_tool(page, "count")
    tool.get_by_role("textbox", name="to").fill("7")
    call(tool)
    page.get_by_role("link", name=re.compile("^Sources")).click()
    page.get_by_role("link", name="Tools").click()
    tool = open_tool(page, "count")
    expect(tool.get_by_text("6 / 7")).to_be_visible()
    tool.get_by_role("button", name="Cancel call").click()
    expect(tool.get_by_text("cancelled")).to_be_visible()


def test_a_question_of_a_call_is_a_form(page: Page) -> None:
    tool = open_tool(page, "reserve")
    tool.get_by_label("item").fill("pears")
    result = call(tool)
    expect(result.get_by_text("For how long do you want pears?")).to_be_visible()
    expect(result.get_by_label("Days")).to_have_value("3")
    result.get_by_label("Days").fill("5")
    result.get_by_role("button", name="Answer").click()
    expect(result.get_by_text("Reserved pears for 5 days.")).to_be_visible()


def test_an_answer_that_does_not_match_the_schema_is_requested_again(page: Page) -> None:
    tool = open_tool(page, "reserve")
    tool.get_by_label("item").fill("pears")
    result = call(tool)
    result.get_by_label("Days").fill("90")
    result.get_by_role("button", name="Answer").click()
    expect(result.get_by_text("The last answer was not valid")).to_be_visible()
    result.get_by_role("button", name="Decline").click()
    expect(result.get_by_text("Did not reserve pears.")).to_be_visible()


def test_results_of_earlier_calls_can_be_shown_again(page: Page) -> None:
    tool = open_tool(page, "take")
    tool.get_by_label("item").fill("apples")
    expect(call(tool).get_by_text("ok", exact=True)).to_be_visible()
    tool.get_by_label("item").fill("plums")
    expect(call(tool).get_by_text("too_few")).to_be_visible()
    tool.get_by_role("region", name="Calls made here").get_by_role("button").filter(has_text="apples").click()
    expect(tool.get_by_label("item")).to_have_value("apples")
    expect(tool.get_by_label("Structured content")).to_be_visible()


def test_the_schema_is_shown_with_types_defaults_and_limits(page: Page) -> None:
    tool = open_tool(page, "order")
    tool.get_by_role("tab", name="Schema").click()
    schema = tool.get_by_role("tabpanel")
    expect(schema).to_contain_text("The items.")
    expect(schema).to_contain_text("at most 99")
    expect(schema).to_contain_text('"apples" | "pears" | "plums"')
    expect(schema.get_by_label("Schemas as JSON")).to_contain_text('"inputSchema"')


def test_durations_of_calls_are_a_chart(page: Page) -> None:
    tool = open_tool(page, "take")
    tool.get_by_label("item").fill("apples")
    expect(call(tool).get_by_text("ok", exact=True)).to_be_visible()
    tool.get_by_role("tab", name="Latency").click()
    expect(tool.get_by_role("img", name="Durations of")).to_be_visible()
    assert tool.locator(".chart-point").count() >= 1
