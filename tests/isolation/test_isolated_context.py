"""What a call can do from within a worker is what it can do in the bridge's own process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from tests.kits.isolation import isolated_asking
from tests.kits.isolation.isolation_kit import both, bridge_of, shown, until

# isort: split
from mcp.shared.exceptions import MCPError

from mcp_bridge.testing import connect
from tests.kits.questions.asking_people import Model, Person, folders

STATELESS = "2026-07-28"
EVERY_ERA = pytest.mark.parametrize("mode", ["legacy", STATELESS])


async def attempt(call: Any) -> Any:
    """What a request comes to: its result or its error."""
    try:
        return shown(await call)
    except MCPError as error:
        return shown([str(error), error.error.model_dump()])


class Client:
    """Everything that a client can be asked, once for each way; `heard` has what it was told."""

    def __init__(self, mode: str, *answers: Any) -> None:
        self._mode, self._answers = mode, answers
        self.people: list[Person] = []
        self.models: list[Model] = []

    def __call__(self) -> dict[str, Any]:
        self.people.append(Person(*self._answers))
        self.models.append(Model())
        return {
            "mode": self._mode,
            "elicitation_callback": self.people[-1],
            "sampling_callback": self.models[-1],
            "list_roots_callback": folders,
        }

    @property
    def asked(self) -> list[Any]:
        """What was asked, for each way."""
        pairs = zip(self.people, self.models, strict=True)
        return [sorted(map(str, map(shown, (*person.asked, *model.asked)))) for person, model in pairs]


async def compared(folder: Path, client: Client, name: str, arguments: Any = None) -> Any:
    """What a call comes to, which must be the same both ways, and so must be what was asked."""

    async def do(connected: Any) -> Any:
        return await attempt(connected.call_tool(name, arguments or {}))

    here, there = await both(folder, do, client)
    assert there == here
    assert client.asked[1] == client.asked[0]
    return there


FITTING: dict[str, Any] = {
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
    "refused": {},
    "broken schema": {},
}


def test_every_kind_of_question_is_in_the_table() -> None:
    assert FITTING.keys() == isolated_asking.kinds().keys()


@EVERY_ERA
@pytest.mark.parametrize("kind", FITTING)
async def test_an_answer_is_of_the_type_that_was_asked_for(kind: str, mode: str, tmp_path: Path) -> None:
    seen = await compared(tmp_path, Client(mode, FITTING[kind]), "asks", {"kind": kind})
    assert ("accept" in str(seen)) is (kind not in ("refused", "broken schema"))


@EVERY_ERA
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_decline_or_leave(action: str, mode: str, tmp_path: Path) -> None:
    assert action in str(await compared(tmp_path, Client(mode, action), "asks", {"kind": "dataclass"}))


@EVERY_ERA
@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("model", [{"row": 13}, {"row": 5}]),
        ("model", [{"row": 0}, {"row": 13}, {"row": 5}]),
        ("str", [{}, {"value": "x"}]),
    ],
)
async def test_what_does_not_fit_is_asked_again(kind: str, answers: Any, mode: str, tmp_path: Path) -> None:
    assert "accept" in str(await compared(tmp_path, Client(mode, *answers), "asks", {"kind": kind}))


@EVERY_ERA
@pytest.mark.parametrize(("kind", "answer"), [("model", {"row": 13}), ("schema", {"name": "x"})])
async def test_what_never_fits_is_an_invalid_answer(kind: str, answer: Any, mode: str, tmp_path: Path) -> None:
    assert "invalid_answer" in str(await compared(tmp_path, Client(mode, answer), "asks", {"kind": kind}))


@EVERY_ERA
async def test_a_synchronous_tool_asks_from_its_thread(mode: str, tmp_path: Path) -> None:
    assert "'x'" in str(await compared(tmp_path, Client(mode, {"value": "x"}), "asks_from_a_thread"))


@EVERY_ERA
@pytest.mark.parametrize("url", ["https://example.com/in", "nowhere"])
async def test_a_page_is_opened(url: str, mode: str, tmp_path: Path) -> None:
    await compared(tmp_path, Client(mode, "accept"), "asks_to_open", {"url": url})


@EVERY_ERA
async def test_questions_may_be_put_at_once(mode: str, tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        return [await attempt(client.call_tool(name, {})) for name in ("asks_at_once", "asks_for_all")]

    async def named(params: Any) -> Any:
        content = {"name": "Ada"} if "name" in params.requested_schema["properties"] else {"value": params.message}
        return types.ElicitResult(action="accept", content=content)

    here, there = await both(tmp_path, do, Client(mode, named))
    assert there == here
    assert all(words in str(there) for words in ("Please, a.", "Please, b.", "Please, c.", "Ada", "Paris", "file:///a"))


@EVERY_ERA
@pytest.mark.parametrize("name", ["samples", "lists_roots"])
async def test_a_model_writes_and_roots_are_listed(name: str, mode: str, tmp_path: Path) -> None:
    seen = str(await compared(tmp_path, Client(mode), name))
    assert "Paris" in seen or "file:///a A" in seen


@EVERY_ERA
async def test_a_handler_that_ends_with_what_it_needs_is_called_again(mode: str, tmp_path: Path) -> None:
    async def person(params: Any) -> Any:
        return types.ElicitResult(action="accept", content=None if params.mode == "url" else {"street": "Elm 1"})

    seen = str(await compared(tmp_path, Client(mode, person), "needs"))
    assert "Elm 1" in seen
    assert "step" in seen


@EVERY_ERA
async def test_what_is_asked_of_a_client_that_cannot_be_asked(mode: str, tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        names = ("asks_from_a_thread", "asks_with_fallback", "samples", "lists_roots", "needs", "asks_to_open")
        return [await attempt(client.call_tool(name, {})) for name in names]

    here, there = await both(tmp_path, do, lambda: {"mode": mode})
    assert there == here
    assert "nobody" in str(there[1])


@EVERY_ERA
async def test_prompts_and_resources_ask_too(mode: str, tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        return await attempt(client.read_resource("test://asking"))

    here, there = await both(tmp_path, do, Client(mode, {"name": "Ada"}))
    assert there == here
    assert "for Ada" in str(there)


async def test_progress_and_log_messages_arrive_in_order(tmp_path: Path) -> None:
    told: list[list[Any]] = []

    def options() -> dict[str, Any]:
        told.append([])

        async def logged(params: Any) -> None:
            told[-1].append(shown(params))

        return {"mode": "legacy", "logging_callback": logged}

    async def do(client: Any) -> Any:
        async def progress(*given: Any) -> None:
            told[-1].append(list(given))

        result = await attempt(client.call_tool("notices", {}, progress_callback=progress))
        await until(lambda: len(told[-1]) >= 10)
        return result

    here, there = await both(tmp_path, do, options)
    assert there == here
    assert told[1] == told[0]


@EVERY_ERA
async def test_a_context_knows_the_same(mode: str, tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        meta: Any = {"own/key": {"a": [1]}}
        return [
            await attempt(client.call_tool("knows", {}, meta=meta)),
            await attempt(client.call_tool("bad_level", {})),
            await attempt(client.call_tool("lists_tools", {})),
            await attempt(client.call_tool("closes_stream", {})),
        ]

    here, there = await both(tmp_path, do, Client(mode))
    assert there == here
    assert "own/key" in str(there)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
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
    ],
)
async def test_calls_of_calls_come_to_the_same(name: str, arguments: Any, tmp_path: Path) -> None:
    async def do(client: Any) -> Any:
        return await attempt(client.call_tool("invokes", {"name": name, "arguments": arguments}))

    here, there = await both(tmp_path, do)
    assert there == here


@pytest.mark.parametrize("isolation", [None, "process"])
async def test_a_resource_that_has_changed_is_told_to_subscribers(isolation: Any, tmp_path: Path) -> None:
    bridge = bridge_of(tmp_path, isolation)
    heard: list[str] = []
    bridge.registry.watch_updates(heard.append)
    async with connect(bridge) as client:
        await client.call_tool("updates", {})
    assert heard == ["test://text"]


async def test_the_log_of_a_worker_is_the_log_of_the_bridge(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with connect(bridge_of(tmp_path, "process")) as client:
        await client.call_tool("logs", {})
    (record,) = [record for record in caplog.records if "another" in record.getMessage()]
    assert record.levelname == "WARNING"
    assert record.name == "mcp_bridge.isolation"
    assert "own.tools: a line" in record.getMessage()
