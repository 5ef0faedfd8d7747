"""A call in a worker can do the same as in the process of the bridge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA, TIMEOUT
from tests.kits.isolation import isolated_asking
from tests.kits.isolation.isolation_kit import build_bridge, dump_result, run_in_both_modes
from tests.kits.questions.simulated_users import Model, SimulatedUser, folders
from tests.kits.waiting import wait_until_true


async def attempt(call: Any) -> Any:
    """Return the result or the error of a request."""
    try:
        return dump_result(await call)
    except MCPError as error:
        return dump_result([str(error), error.error.model_dump()])


class Client:
    """The options of clients that answer all kinds of questions. `people` and `models` record the questions."""

    def __init__(self, mode: str, *answers: Any) -> None:
        self._mode, self._answers = mode, answers
        self.people: list[SimulatedUser] = []
        self.models: list[Model] = []

    def __call__(self) -> dict[str, Any]:
        self.people.append(SimulatedUser(*self._answers))
        self.models.append(Model())
        return {
            "mode": self._mode,
            "elicitation_callback": self.people[-1],
            "sampling_callback": self.models[-1],
            "list_roots_callback": folders,
        }

    @property
    def questions(self) -> list[Any]:
        """Return the questions by their kinds."""
        pairs = zip(self.people, self.models, strict=True)
        return [sorted(map(str, map(dump_result, (*user.questions, *model.questions)))) for user, model in pairs]


ACCEPTED: dict[str, Any] = {
    "nothing": {},
    "dataclass": {"street": "Elm 1", "floor": 2},
    "model": {"row": 12},
    "TypedDict": {"left": 0.5, "right": False},
    "Enum": {"value": "red"},
    "Literal": {"value": "b"},
    "several": {"value": ["red", "blue"]},
    "str": {"value": "ünï"},
    "int": {"value": 7},
    "float": {"value": 2},
    "bool": {"value": True},
    "date": {"value": "2026-07-28"},
    "schema": {"name": "Ada"},
}
REJECTED = ("refused", "broken schema")


async def fill_in(params: Any) -> types.ElicitResult:
    """Accept a form with an address, a name, or the message as the value."""
    if params.mode == "url":
        return types.ElicitResult(action="accept")
    fields = params.requested_schema["properties"]
    content = {"name": "Ada"} if "name" in fields else {"street": "Elm 1"} if "street" in fields else None
    return types.ElicitResult(action="accept", content=content or {"value": params.message})


@dataclass(frozen=True)
class Case:
    """A call with a question, the actions of the user, and words of the result."""

    tool: str
    answers: tuple[Any, ...]
    words: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)


def make_asking_call(kind: str, *answers: Any, words: str) -> Case:
    """Return a call of the tool with one kind of form."""
    return Case("asks", answers, (words,), {"kind": kind})


CASES: dict[str, Case] = {
    **{kind: make_asking_call(kind, answer, words="accept") for kind, answer in ACCEPTED.items()},
    **{kind: make_asking_call(kind, words="internal error") for kind in REJECTED},
    "declined": make_asking_call("dataclass", "decline", words="decline"),
    "cancelled": make_asking_call("dataclass", "cancel", words="cancel"),
    "fits the second time": make_asking_call("model", {"row": 13}, {"row": 5}, words="accept"),
    "fits the third time": make_asking_call("model", {"row": 0}, {"row": 13}, {"row": 5}, words="accept"),
    "a required field is missing": make_asking_call("str", {}, {"value": "x"}, words="accept"),
    "a model that never fits": make_asking_call("model", *[{"row": 13}] * 3, words="invalid_answer"),
    "a schema that never fits": make_asking_call("schema", *[{"name": "x"}] * 3, words="invalid_answer"),
    "from a thread": Case("asks_from_a_thread", ({"value": "x"},), ("'x'",)),
    "a page": Case("asks_to_open", ("accept",), ("accept",)),
    "no page": Case("asks_to_open", (), ("internal error",), {"url": "nowhere"}),
    "at once": Case("asks_at_once", (fill_in,) * 3, ("Please, a.", "Please, b.", "Please, c.")),
    "all kinds at once": Case("asks_for_all", (fill_in,), ("Ada", "Paris", "file:///a")),
    "a model writes": Case("samples", (), ("Paris",)),
    "roots": Case("lists_roots", (), ("file:///a A",)),
    "ends with what it needs": Case("needs", (fill_in, fill_in), ("Elm 1", "step")),
}


def test_isolated_tools_ask_every_kind_of_form() -> None:
    assert {*ACCEPTED, *REJECTED} == isolated_asking.list_types().keys()


@EVERY_ERA
async def test_isolated_tools_ask_the_same_questions_and_get_the_same_answers(mode: str, tmp_path: Path) -> None:
    client = Client(mode, *(answer for case in CASES.values() for answer in case.answers), {"name": "Ada"})

    async def do(session: Any) -> Any:
        results = {name: await attempt(session.call_tool(case.tool, case.arguments)) for name, case in CASES.items()}
        return {**results, "a resource": await attempt(session.read_resource("test://asking"))}

    local, isolated_result = await run_in_both_modes(tmp_path, do, client)
    assert {name: isolated_result[name] for name in local if isolated_result[name] != local[name]} == {}
    assert client.questions[1] == client.questions[0]
    for name, case in CASES.items():
        assert [words for words in case.words if words not in str(isolated_result[name])] == [], (
            name,
            isolated_result[name],
        )
    assert "for Ada" in str(isolated_result["a resource"])


@EVERY_ERA
async def test_isolated_tools_get_the_same_error_if_the_client_cannot_be_asked(mode: str, tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        names = ("asks_from_a_thread", "asks_with_fallback", "samples", "lists_roots", "needs", "asks_to_open")
        return [await attempt(client.call_tool(name, {})) for name in names]

    local, remote = await run_in_both_modes(tmp_path, do, lambda: {"mode": mode})
    assert remote == local
    assert "anonymous" in str(remote[1])


async def test_progress_and_log_messages_arrive_in_order(tmp_path: Path) -> None:
    notices: list[list[Any]] = []

    def options() -> dict[str, Any]:
        notices.append([])

        async def logged(params: Any) -> None:
            notices[-1].append(dump_result(params))

        return {"mode": "legacy", "logging_callback": logged}

    async def do(client: Any) -> Any:
        async def progress(*values: Any) -> None:
            notices[-1].append(list(values))

        result = await attempt(client.call_tool("notices", {}, progress_callback=progress))
        await wait_until_true(lambda: len(notices[-1]) >= 10)
        return result

    local, remote = await run_in_both_modes(tmp_path, do, options)
    assert remote == local
    assert notices[1] == notices[0]


@EVERY_ERA
async def test_isolated_tools_have_the_same_context(mode: str, tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        meta: Any = {"own/key": {"a": [1]}}
        return [
            await attempt(client.call_tool("knows", {}, meta=meta)),
            await attempt(client.call_tool("bad_level", {})),
            await attempt(client.call_tool("lists_tools", {})),
            await attempt(client.call_tool("closes_stream", {})),
        ]

    local, remote = await run_in_both_modes(tmp_path, do, Client(mode))
    assert remote == local
    assert "own/key" in str(remote)


INNER: list[tuple[str, Any]] = [
    ("presented", {"city": "Bern", "days": 2}),
    ("presented", {}),
    ("presented", {"city": 1}),
    ("nowhere", None),
    ("answers", {"kind": "ToolError"}),
    ("answers", {"kind": "ValueError"}),
    ("answers", {"kind": "image"}),
    ("answers", {"kind": "Denied"}),
    ("promises", {"kept": False}),
    ("needs", None),
    ("invokes", {"name": "invokes", "arguments": {"name": "presented", "arguments": {"city": "x"}}}),
]


async def test_nested_calls_of_isolated_tools_have_the_same_results(tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        return [
            await attempt(client.call_tool("invokes", {"name": name, "arguments": arguments}))
            for name, arguments in INNER
        ]

    local, remote = await run_in_both_modes(tmp_path, do)
    assert remote == local


@pytest.mark.parametrize("isolation", [None, "process"])
async def test_an_update_of_a_resource_is_sent_to_subscribers(isolation: Any, tmp_path: Path) -> None:
    bridge = build_bridge(tmp_path, isolation)
    reports: list[str] = []
    bridge.registry.watch_updates(reports.append)
    async with connect(bridge) as client:
        await client.call_tool("updates", {})
    assert reports == ["test://text"]


async def test_the_log_of_a_worker_is_the_log_of_the_bridge(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with connect(build_bridge(tmp_path, "process")) as client:
        await client.call_tool("logs", {})
    (record,) = [record for record in caplog.records if "another" in record.getMessage()]
    assert record.levelname == "WARNING"
    assert record.name == "mcp_bridge.isolation"
    assert "own.tools: a line" in record.getMessage()


async def test_a_tool_that_takes_the_context_only_after_a_reload_gets_the_clients_context(tmp_path: Path) -> None:
    before = "from mcp_bridge import CallContext, tool\n\n@tool\nasync def version() -> str:\n    return 'none'\n"
    after = before.replace("version()", "version(ctx: CallContext)").replace("'none'", "ctx.protocol_version")
    bridge = build_bridge(tmp_path, "process", tools=before, watch=True)

    async def call(client: Any) -> str:
        return str((await client.call_tool("version", {})).content[0].text)

    async with connect(bridge) as client:
        assert await call(client) == "none"
        (tmp_path / "offered" / "own.py").write_text(after)
        with anyio.fail_after(TIMEOUT):
            # The file is polled. For a moment the worker has the new function, and the bridge still the old schema.
            while await call(client) in ("none", ""):  # noqa: ASYNC110
                await anyio.sleep(0.05)
