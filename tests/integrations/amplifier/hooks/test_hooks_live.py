"""Hooks in a real server process, over stdio and HTTP, in both eras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client.server_process import ClientProfile, Way
from tests.kits.constants import TIMEOUT
from tests.kits.hooks.hooked_sources import write_settings
from tests.kits.hooks.hooks_kit import Json
from tests.kits.questions.asking_kit import get_code
from tests.kits.survival.survival_kit import run_server
from tests.kits.waiting import wait_until

ELICITATION_CLIENT = ClientProfile(capabilities={"elicitation": {"form": {}}})
STDIO, HTTP = Way("stdio", False), Way("http", True)
BOTH = [STDIO, HTTP]
"""A way for each transport and each era."""


def build_live_settings(folder: Path, host: str = "native", hook_timeout: str = "60s", **more: Any) -> Json:
    """Return settings for a live server with every kind of source, with hooks."""
    return {**json.loads(write_settings(folder, host=host, hook_timeout=hook_timeout).read_text()), **more}


@pytest.mark.parametrize(("way", "host"), [(STDIO, "native"), (HTTP, "core")], ids=str, indirect=["host"])
def test_hooks_deny_change_mask_and_time_out_over_the_wire(way: Way, host: str, tmp_path: Path) -> None:
    with (
        run_server(way, tmp_path, settings=build_live_settings(tmp_path, host, "5s")) as server,
        server.keep_call_in_flight(TIMEOUT),
    ):
        for name in ("of_file", "of_worker", "of_module"):
            assert server.get_result(name, word="alias")["structuredContent"] == {"word": "real"}
            assert server.get_result(name, word="secret")["structuredContent"] == {"word": "***"}
            assert get_code(server.get_result(name, word="forbidden")) == "denied"
        assert get_code(server.get_result("of_file", word="hang")) == "denied"
        assert get_code(server.get_result("of_file", word="crash")) == "denied"
        assert "hooks crash" not in server.output.decode()
        server.wait_for_stderr("hooks crash")


@pytest.mark.parametrize("way", BOTH, ids=str)
def test_a_client_that_cannot_be_asked_is_denied_by_default(way: Way, tmp_path: Path) -> None:
    with run_server(way, tmp_path, settings=build_live_settings(tmp_path)) as server:
        assert get_code(server.get_result("of_file", word="asked")) == "approval_declined"
        server.wait_for_stderr("tool 'of_file': denied by default, because the user cannot be asked")


@pytest.mark.parametrize(
    ("way", "choice", "code", "host"),
    [(Way("stdio", True), "Allow once", None, "core"), (HTTP, "Deny", "approval_declined", "native")],
    ids=str,
    indirect=["host"],
)
def test_an_approval_that_one_process_asks_for_another_is_given(
    way: Way, choice: str, code: str | None, host: str, tmp_path: Path
) -> None:
    keys = ["a key of thirty-two bytes or more, for tests"]
    settings = build_live_settings(tmp_path, host, name="both", state={"keys": keys})
    params: Json = {"name": "of_file", "arguments": {"word": "asked"}}
    with run_server(way, tmp_path, settings=settings, profile=ELICITATION_CLIENT) as first:
        questions = first.send_request("tools/call", params).result(TIMEOUT)["result"]
    assert questions["inputRequests"]["q1"]["params"]["message"] == 'of_file?\n- word (length 5): "asked"'
    answers = {"q1": {"action": "accept", "content": {"value": choice}}}
    params |= {"inputResponses": answers, "requestState": questions["requestState"]}
    with run_server(way, tmp_path, settings=settings, profile=ELICITATION_CLIENT) as second:
        assert get_code(second.send_request("tools/call", params).result(TIMEOUT)["result"]) == code
        repetition = second.send_request("tools/call", params).result(TIMEOUT)
        assert repetition["error"]["data"] == {"reason": "invalid_request_state"}


def test_an_approval_in_the_handshake_era_is_a_request_of_the_server(tmp_path: Path) -> None:
    with run_server(
        STDIO, tmp_path, settings=build_live_settings(tmp_path, "core"), profile=ELICITATION_CLIENT
    ) as server:
        waiting = server.send_call("of_worker", word="asked")
        requests = wait_until(
            lambda: [message for message in server.received if message.get("method") == "elicitation/create"]
        )
        assert requests[0]["params"]["message"] == 'of_worker?\n- word (length 5): "asked"'
        answer = {"action": "accept", "content": {"value": "Allow once"}}
        server.send({"jsonrpc": "2.0", "id": requests[0]["id"], "result": answer})
        assert waiting.result(TIMEOUT)["result"]["structuredContent"] == {"word": "asked"}
