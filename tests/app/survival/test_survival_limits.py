"""Limits of time, result size, concurrent calls, arguments and cost, tested on real processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from tests.client.server_process import Way
from tests.kits.constants import TIMEOUT
from tests.kits.paths import KITS
from tests.kits.questions.asking_kit import get_code
from tests.kits.survival.fault_kit import SharedServers
from tests.kits.survival.survival_kit import FIRST_WAY, ON_BOTH_WAYS, SECOND_WAY, run_server

TOOLS = KITS / "survival" / "limits_tools.py"
MIB = 1024 * 1024
QUEUE = 1024
"""How many calls may wait."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Yield servers with default limits and a call in flight during all tests."""

    @contextlib.contextmanager
    def start(way: Way) -> Iterator[Any]:
        with run_server(way, tmp_path_factory.mktemp("limits"), TOOLS) as server, server.keep_call_in_flight():
            yield server

    with contextlib.closing(SharedServers(start)) as servers:
        yield servers


@pytest.fixture
def way() -> Way:
    """Return the default way."""
    return FIRST_WAY


def read_whole_text(server: Any, result: dict[str, Any]) -> str:
    """Return the whole text of a shortened result, read page by page."""
    output, note = result["content"][0]["text"], result["content"][1]["text"]
    first, last = re.findall(r"mcp-bridge://results/[\w-]+/\d+", note)
    start, end = (int(uri.rsplit("/", 1)[1]) for uri in (first, last))
    pages = []
    for number in range(start, end + 1):
        future = server.send_request("resources/read", {"uri": f"{first.rsplit('/', 1)[0]}/{number}"})
        pages.append(future.result(TIMEOUT)["result"]["contents"][0]["text"])
    return str(output) + "".join(pages)


def test_a_call_ends_at_its_timeout_which_a_tool_can_override(tmp_path: Path) -> None:
    settings = {"limits": {"timeout": "1s", "tools": {"other_*": {"timeout": 0.2}}}}
    # The neighbour has more time than all other clients.
    with run_server(FIRST_WAY, tmp_path, TOOLS, settings) as server, server.keep_call_in_flight():
        for name, seconds in (("other_sleep", "0.2"), ("sleep_long", "1")):
            result = server.get_result(name)
            assert get_code(result) == "timeout"
            assert f"{seconds} second" in result["content"][0]["text"]


def test_a_text_of_768_kib_is_whole_and_one_character_more_is_truncated(server: Any) -> None:
    most = 768 * 1024
    exact = server.get_result("letters", count=most)
    assert [len(item["text"]) for item in exact["content"]] == [most]
    long_result = server.get_result("letters", count=most + 1)
    assert len(long_result["content"][0]["text"]) == most
    assert f"{most} of {most + 1} characters" in long_result["content"][1]["text"]
    assert len(read_whole_text(server, long_result)) == most + 1


def test_the_pages_of_a_truncated_result_add_up_to_the_whole(tmp_path: Path) -> None:
    with (
        run_server(FIRST_WAY, tmp_path, TOOLS, {"limits": {"result": "10 KiB"}}) as server,
        server.keep_call_in_flight(),
    ):
        result = server.get_result("letters", count=100_001)
        assert len(result["content"][0]["text"]) == 10 * 1024
        assert read_whole_text(server, result) == "".join(f"{place:08d}" for place in range(0, 100_001, 8))[:100_001]


HUGE: list[tuple[Way, str, dict[str, Any]]] = [
    (SECOND_WAY, "letters", {"count": 100_000_000}),
    (FIRST_WAY, "picture", {"size": 100_000_000}),
    (FIRST_WAY, "blocks", {"count": 100_000, "text": "x" * 1000}),
    (FIRST_WAY, "blocks", {"count": 200_000, "text": ""}),
    (FIRST_WAY, "pictures", {"count": 100_000}),
    (FIRST_WAY, "beside", {"where": "structured", "size": 100_000_000}),
    (FIRST_WAY, "beside", {"where": "meta", "size": 100_000_000}),
    (FIRST_WAY, "declared", {"where": "structured", "size": 100_000_000}),
]


@pytest.mark.parametrize(("way", "name", "arguments"), HUGE, ids=[f"{way}-{name}" for way, name, _ in HUGE])
def test_huge_content_of_any_kind_is_omitted(server: Any, name: str, arguments: dict[str, Any]) -> None:
    result = server.send_call(name, **arguments).result(TIMEOUT)["result"]
    assert len(str(result)) < 3 * MIB
    text = " ".join(item.get("text", "") for item in result["content"])
    assert "This result was truncated" in text or arguments.get("text") == ""
    assert (name == "declared") == bool(result.get("isError"))
    if name == "declared":
        assert get_code(result) == "result_too_large"
    assert server.get_text("echo", text="still here") == "still here"


def test_pictures_within_the_limit_stay_as_they_are(server: Any) -> None:
    result = server.get_result("picture", size=3 * MIB)
    assert [item["type"] for item in result["content"]] == ["image"]
    assert len(result["content"][0]["data"]) == 4 * MIB


@ON_BOTH_WAYS
def test_a_tool_at_its_limit_rejects_calls_while_others_are_served(way: Way, tmp_path: Path) -> None:
    settings = {"limits": {"concurrency": 50, "tools": {"holds": {"concurrency": 2}}}}
    with run_server(way, tmp_path, TOOLS, settings) as server, server.keep_call_in_flight():
        running_calls = [server.send_call("holds", token=f"a{number}") for number in range(2)]
        for number in range(2):
            server.wait_for_stderr(f"held a{number}")
        several = [server.send_call("holds", token="later") for _ in range(QUEUE + 3)]
        errors = wait_for_first(several, 3)
        assert {get_code(answer["result"]) for answer in errors} == {"overloaded"}
        assert all("holds" in answer["result"]["content"][0]["text"] for answer in errors)
        for token in ("a0", "a1", "later"):
            server.get_result("release", token=token)
        assert {call.result(TIMEOUT)["result"]["content"][0]["text"] for call in running_calls} == {"a0", "a1"}
        server.get_result("release", token="again")
        assert server.get_text("holds", token="again") == "again"


def test_a_server_at_its_limit_rejects_calls_and_recovers(tmp_path: Path) -> None:
    with run_server(FIRST_WAY, tmp_path, TOOLS, {"limits": {"concurrency": 2}}) as server:
        running_calls = [server.send_call("holds", token=f"all{number}") for number in range(2)]
        for number in range(2):
            server.wait_for_stderr(f"held all{number}")
        errors = wait_for_first([server.send_call("release", token="all0") for _ in range(QUEUE + 8)], 8)
        assert {get_code(answer["result"]) for answer in errors} == {"overloaded"}
        assert server.send_request("tools/list").result(TIMEOUT)["result"]["tools"]
        assert server.is_running
        for call in running_calls:
            assert not call.done()


def wait_for_first(calls: list[Any], count: int) -> list[dict[str, Any]]:
    """Return the responses of the calls that finish first, at least this many."""
    end = time.monotonic() + TIMEOUT
    while sum(call.done() for call in calls) < count:
        assert time.monotonic() < end, [call.done() for call in calls]
        time.sleep(0.01)
    return [call.result() for call in calls if call.done()]


TOO_MUCH: list[tuple[Any, str]] = [
    ("x" * 4000, "characters of text"),
    ([0] * 100_001, "more than 100000 values"),
    (reduce(lambda inner, _: [inner], range(70), 0), "nested deeper than 64 levels"),
]


def test_arguments_beyond_a_limit_are_rejected_with_that_limit(tmp_path: Path) -> None:
    settings = {"limits": {"arguments": 3000}}
    with run_server(FIRST_WAY, tmp_path, TOOLS, settings) as server, server.keep_call_in_flight():
        for data, message in TOO_MUCH:
            result = server.get_result("takes", data=data)
            assert get_code(result) == "invalid_arguments"
            assert message in result["content"][0]["text"]
        assert server.get_text("takes", data=[[[[1]]]]) == "list"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("several", {"items": ["x"] * 99_000}),
        ("several", {"items": [], "words": ["a" * 1000] * 1000}),
        ("several", {"items": [], "words": ["a" * 1_000_000]}),
        ("takes", {f"unknown{number}": number for number in range(90_000)}),
        ("takes", {"data": [[[]] * 100] * 400}),
        ("echo", {"text": {"a": ["x"] * 90_000}}),
    ],
    ids=["wrong items", "patterns", "one long pattern", "unknown names", "lists", "a wrong type"],
)
def test_no_request_costs_a_hundred_times_what_it_costs_its_sender(
    server: Any, name: str, arguments: dict[str, Any]
) -> None:
    server.get_result("several", items=[1])
    began, spent, rss = time.process_time(), measure_cpu(server), server.rss
    request_size = len(json.dumps(arguments))
    for _ in range(5):
        json.loads(json.dumps(arguments))
    result = server.get_result(name, **arguments)
    # The time includes writing the message and reading the answer.
    sender = max((time.process_time() - began) / 6, 0.01)
    assert len(str(result)) < 100 * request_size
    assert measure_cpu(server) - spent < 100 * sender
    assert server.rss - rss < 100 * request_size


REF = {"type": "ref/prompt", "name": "paint"}
LIGATURES = "\ufdfa" * 650_000
"""Each is decomposed into 18 characters; a message has 4 MB of them as escapes."""


@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        (
            "completion/complete",
            {"ref": REF, "argument": {"name": "color", "value": LIGATURES}},
            "argument.value has 650000 characters; at most 1000 can be completed",
        ),
        (
            "completion/complete",
            {
                "ref": REF,
                "argument": {"name": "color", "value": "r"},
                "context": {"arguments": {"count": "1" * 10_001}},
            },
            "'count' has 10001 characters; at most 10000 are allowed",
        ),
        (
            "completion/complete",
            {
                "ref": REF,
                "argument": {"name": "color", "value": "r"},
                "context": {"arguments": {str(number): "x" for number in range(101)}},
            },
            "context.arguments has 101 arguments; at most 100 are allowed",
        ),
        ("prompts/get", {"name": "paint", "arguments": {"count": "[" + "[]," * 1_300_000 + "1]"}}, "count"),
    ],
    ids=["ligatures", "known value", "known values", "json in text"],
)
def test_a_request_is_rejected_before_its_text_becomes_something_larger(
    server: Any, method: str, params: dict[str, Any], reason: str
) -> None:
    paint = {"ref": REF, "argument": {"name": "color", "value": "R"}}
    assert server.send_request("completion/complete", paint).result(TIMEOUT)["result"]["completion"]["values"] == [
        "red",
        "green",
    ]
    with limit_growth(server, 100 * MIB):
        error = server.send_request(method, params).result(TIMEOUT)["error"]
    assert error["code"] == -32602
    assert reason in error["message"]
    assert len(str(error)) < 3000


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "x" * 40_000, "arguments": {}}),
        ("prompts/get", {"name": "x" * 40_000}),
        ("resources/read", {"uri": "x://" + "x" * 40_000}),
        ("completion/complete", {"ref": {**REF, "name": "x" * 40_000}, "argument": {"name": "color", "value": ""}}),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "x" * 40_000}, "argument": {"name": "color", "value": ""}},
        ),
        ("completion/complete", {"ref": REF, "argument": {"name": "x" * 40_000, "value": ""}}),
        ("tools/list", {"cursor": "x" * 40_000}),
    ],
    ids=["tool", "prompt", "resource", "completed prompt", "completed template", "argument", "cursor"],
)
def test_an_error_repeats_only_the_beginning_of_a_long_name(server: Any, method: str, params: dict[str, Any]) -> None:
    error = server.send_request(method, params).result(TIMEOUT)["error"]
    assert error["code"] == -32602
    assert "x" * 900 in str(error)
    assert "(4000" in str(error)
    assert len(str(error)) < 3000


@contextlib.contextmanager
def limit_growth(server: Any, size: int) -> Iterator[None]:
    """Check that the memory of the server never grows by more than this many bytes in the block."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    before = server.rss
    yield
    status = Path(f"/proc/{server.pid}/status").read_text()
    assert int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024 - before < size


def measure_cpu(server: Any) -> float:
    """Return the seconds of CPU used by the process."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
