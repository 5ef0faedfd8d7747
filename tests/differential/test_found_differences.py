"""Cases from generated messages in which the engine must behave like the SDK's server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.differential.test_listed_differences import META, ask, begin, call
from tests.kits.constants import META_PREFIX
from tests.kits.oracle.twin_servers import connect_twins

Json = dict[str, Any]
TEXT: Json = {"type": "text", "text": "a"}
WITHOUT_ROOTS: Json = {**META, f"{META_PREFIX}clientCapabilities": {}}


def answer(request: str, **result: Any) -> Json:
    return {"jsonrpc": "2.0", "id": request, "result": result}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [
                *begin(),
                call("sample"),
                answer("sampling/createMessage#1", content=TEXT, model="m"),
            ],
            id="a sampled message without a role",
        ),
        pytest.param(
            [*begin(), call("open_page"), answer("elicitation/create#1", action="accept", content="text")],
            id="content that is no object",
        ),
    ],
)
async def test_an_answer_that_does_not_match_its_schema_is_not_used(messages: list[Json]) -> None:
    async with connect_twins() as twins:
        *_, last = [await twins.exchange(json.dumps(message).encode()) for message in messages]
    [response] = last.oracle["response to 1"]
    assert response["result"]["isError"]
    assert last.engine.get("response to 1") in (None, [response])


async def test_a_retry_that_declares_no_capability_is_not_asked() -> None:
    retry = call("roots", 2, requestState="the first", inputResponses={}, _meta=WITHOUT_ROOTS)
    async with connect_twins() as twins:
        await twins.exchange(json.dumps(call("roots", _meta=META)).encode())
        outcome = await twins.exchange(json.dumps(retry).encode())
    assert outcome.engine == outcome.oracle


async def test_a_listen_stream_that_ends_gets_an_equal_result() -> None:
    listen = ask("subscriptions/listen", notifications={"toolsListChanged": True}, _meta=META)
    async with connect_twins() as twins:
        await twins.exchange(json.dumps(listen).encode())
        outcome = await twins.close_subscriptions()
    assert outcome.engine == outcome.oracle
