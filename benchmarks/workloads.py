"""What a call asks for, and what its response must contain.

In texts of a workload, NUMBER is replaced by the number of the call, so a response to another call is noticed.
"""

import base64
from dataclasses import dataclass
from typing import Any

from benchmarks.servers.content import NOTES, NOTES_URI, PNG, REPORT
from benchmarks.servers.offer import ECHO

NUMBER = "%(number)d"
TEXT = f"the text of call {NUMBER}"
FIRST_TEXT = ("content", 0, "text")
"""Where the text of a tool is in the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A request, where in its result to look, and the text that must be there."""

    method: str = "tools/call"
    params: dict[str, Any]
    path: tuple[str | int, ...] = FIRST_TEXT
    expected: str = TEXT


def make_call(name, arguments, **options):
    """Return the workload that calls a tool."""
    return Workload(params={"name": name, "arguments": arguments}, **options)


SUM = {"a": NUMBER, "b": 0}
ITEMS = [{"sku": "apple", "amount": 3, "price": 0.5}, {"sku": "pear", "amount": 1, "price": 0.75}]
WORKLOADS = {
    "echo": make_call(ECHO, {"text": TEXT}),
    "add": make_call("add", SUM, expected=NUMBER),
    "add-async": make_call("add_async", SUM, expected=NUMBER),
    "model": make_call("place_order", {"order": {"customer": TEXT, "items": ITEMS}}),
    "context": make_call("greet", {"text": TEXT}),
    "resource": Workload(
        method="resources/read", params={"uri": NOTES_URI}, path=("contents", 0, "text"), expected=NOTES
    ),
    "prompt": Workload(
        method="prompts/get",
        params={"name": "summarize", "arguments": {"text": TEXT}},
        path=("messages", 0, "content", "text"),
        expected=f"Summarize: {TEXT}",
    ),
    "report": make_call("write_report", {"text": TEXT}, expected=f"{TEXT}\n{REPORT}"),
    "image": make_call("draw_chart", {}, path=("content", 0, "data"), expected=base64.b64encode(PNG).decode()),
}
