"""At a signal and at the end of input, calls in flight are answered, or cancelled with a message to the client."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.client.server_process import ClientProfile, Way
from tests.kits.constants import TIMEOUT
from tests.kits.survival.ending_kit import (
    CLOSED,
    EOF,
    SIGNALS,
    ResponseStream,
    Sse,
    assert_clean_exit,
    begin_call,
    end_server,
    list_children,
    open_listen_stream,
    open_session_stream,
    release_tools,
    run_ending_server,
    wait_for_code,
    wait_for_text,
    wait_until_draining,
)
from tests.kits.survival.survival_kit import FIRST_WAY, ON_BOTH_WAYS, on_one_way
from tests.kits.waiting import wait_until

HANDSHAKE = Way("stdio", stateless=False)
HANDSHAKE_HTTP = Way("http", stateless=False)
STATELESS_HTTP = Way("http", stateless=True)
ASKED_CLIENT = ClientProfile(capabilities={"elicitation": {"form": {}}})


def parametrize_endings(*cases: tuple[Way, str]) -> pytest.MarkDecorator:
    """Run a test for each way and how the server ends on it."""
    return pytest.mark.parametrize(("way", "how"), cases, ids=[f"{way}-{how}" for way, how in cases])


@parametrize_endings(
    *((FIRST_WAY, how) for how in (*SIGNALS, EOF)),
    (HANDSHAKE, EOF),
    (HANDSHAKE_HTTP, "SIGTERM"),
    (STATELESS_HTTP, "SIGINT"),
)
def test_calls_in_flight_finish_and_the_exit_code_is_0(way: Way, how: str, tmp_path: Path) -> None:
    with run_ending_server(way, tmp_path) as server:
        tools = ("waits", "waits", "waits_in_a_thread", "steps")
        answers = [begin_call(server, tool, f"{number}") for number, tool in enumerate(tools)]
        end_server(server, how)
        release_tools(server)
        assert [wait_for_text(answer) for answer in answers] == [f"done {number}" for number in range(len(tools))]
        assert_clean_exit(server)


@ON_BOTH_WAYS
def test_new_calls_are_rejected_with_a_reason_while_the_server_drains(way: Way, tmp_path: Path) -> None:
    with run_ending_server(way, tmp_path) as server:
        answer = begin_call(server, "waits", "first")
        server.signal(SIGTERM)
        wait_until_draining(server)
        assert wait_for_code(server.send_call("waits", name="late")) == CLOSED
        # The connection is still open.
        assert server.send_request("ping").result(TIMEOUT).get("error", {}).get("code") != CLOSED
        assert "begun late" not in server.stderr
        release_tools(server)
        assert wait_for_text(answer) == "done first"
        assert_clean_exit(server)


def test_over_http_a_late_request_is_rejected_with_its_id_and_asked_to_retry(tmp_path: Path) -> None:
    with run_ending_server(STATELESS_HTTP, tmp_path) as server:
        begin_call(server, "waits", "first")
        server.signal(SIGTERM)
        wait_until_draining(server)
        request = server.make_request("tools/list", None, None)
        late = server.post(json.dumps(request).encode(), server.make_headers(request))
        assert (late.status_code, late.headers["retry-after"], late.json()["id"]) == (503, "1", request["id"])
        hello = {"jsonrpc": "2.0", "id": "x", "method": "initialize", "params": server.profile.initialize_params}
        assert server.http.post("/mcp", json=hello).status_code == 503
        assert server.http.post("/mcp", content=b"{").status_code != 500
        assert server.http.get("/sse").status_code == 503


@parametrize_endings((FIRST_WAY, EOF), (HANDSHAKE, "SIGTERM"), (HANDSHAKE_HTTP, "SIGTERM"), (STATELESS_HTTP, "SIGTERM"))
def test_calls_that_do_not_finish_in_time_are_cancelled_and_their_clients_notified(
    way: Way, how: str, tmp_path: Path
) -> None:
    with run_ending_server(way, tmp_path, 0.3, limits={"tools": {"for_ever": {"concurrency": 1}}}) as server:
        answers = [begin_call(server, tool, tool) for tool in ("for_ever", "thread_for_ever")]
        # The second call waits for a free place.
        answers.append(server.send_call("for_ever", name="second"))
        assert server.get_text("echo", text="there") == "there"
        end_server(server, how)
        assert [wait_for_code(answer) for answer in answers] == [CLOSED] * 3
        assert "begun second" not in server.stderr
        assert_clean_exit(server)
        assert "ended for_ever" in server.stderr
        assert server.stderr.count("did not end within 0.3 seconds") == 1


@parametrize_endings((FIRST_WAY, EOF), (HANDSHAKE_HTTP, "SIGTERM"))
def test_queued_calls_finish_too(way: Way, how: str, tmp_path: Path) -> None:
    with run_ending_server(way, tmp_path, limits={"tools": {"waits": {"concurrency": 1}}}) as server:
        answers = [
            begin_call(server, "waits", "first"),
            *(server.send_call("waits", name=f"{number}") for number in range(3)),
        ]
        # These calls use connections of their own, and are sent after the others.
        later = [server.send_call("echo", text="there") for _ in range(4)]
        assert [wait_for_text(item) for item in later] == ["there"] * 4
        end_server(server, how)
        release_tools(server)
        assert sorted(map(wait_for_text, answers)) == ["done 0", "done 1", "done 2", "done first"]
        assert_clean_exit(server)


@on_one_way("tool", ["stubborn", "loop_for_ever"], smoke=["stubborn"])
def test_a_call_that_will_not_be_cancelled_does_not_hold_the_end(way: Way, tool: str, tmp_path: Path) -> None:
    with run_ending_server(way, tmp_path, 0.3) as server:
        answer = begin_call(server, tool, tool)
        server.signal(SIGTERM)
        assert server.wait() == 0
        if way.transport == "http":
            assert answer.exception(TIMEOUT) is not None or "error" in answer.result()


def test_a_loop_that_is_held_for_ever_does_not_outlive_a_signal_after_the_end_of_input(tmp_path: Path) -> None:
    with run_ending_server(FIRST_WAY, tmp_path) as server:
        begin_call(server, "loop_for_ever", "loop")
        server.close_input()
        server.signal(SIGTERM)
        # The second signal is another one, because two equal ones may arrive as one.
        server.signal(SIGINT)
        assert server.wait() == 0


@ON_BOTH_WAYS
def test_a_client_that_does_nothing_does_not_hold_the_end(way: Way, tmp_path: Path) -> None:
    with run_ending_server(way, tmp_path) as server:
        assert server.get_text("echo", text="there") == "there"
        server.signal(SIGTERM)
        assert_clean_exit(server)


def test_open_streams_end_with_a_proper_last_byte(tmp_path: Path) -> None:
    with (
        run_ending_server(HANDSHAKE_HTTP, tmp_path) as server,
        run_ending_server(STATELESS_HTTP, tmp_path) as stateless_server,
    ):
        streams = [open_session_stream(server), Sse(server).stream, Sse(server).stream]
        listener = open_listen_stream(stateless_server)
        listener.has("acknowledged")
        for item in (server, stateless_server):
            item.signal(SIGTERM)
        assert [stream.ends() for stream in (*streams, listener)] == [True] * 4
        assert listener.messages[-1]["result"]["resultType"] == "complete"
        assert_clean_exit(server)
        assert_clean_exit(stateless_server)


def test_a_resumed_stream_gets_its_response(tmp_path: Path) -> None:
    with run_ending_server(HANDSHAKE_HTTP, tmp_path) as server:
        params = {"name": "steps", "arguments": {"name": "steps"}, "_meta": {"progressToken": "p"}}
        request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        first = ResponseStream(server, "POST", "/mcp", json=request, headers=server.headers)
        first.has("notifications/progress")
        last = [line.removeprefix("id: ") for line in first.text.splitlines() if line.startswith("id: ")][-1]
        first.leave()
        second_stream = ResponseStream(server, "GET", "/mcp", headers={**server.headers, "Last-Event-ID": last})
        server.signal(SIGTERM)
        wait_until_draining(server)
        release_tools(server)
        second_stream.has("done steps")
        assert second_stream.ends()
        assert_clean_exit(server)


def test_over_legacy_sse_calls_get_a_response_or_an_error_at_shutdown(tmp_path: Path) -> None:
    with run_ending_server(HANDSHAKE_HTTP, tmp_path, 2) as server:
        client = Sse(server)
        client.begin(1, "waits")
        client.begin(2, "for_ever")
        server.signal(SIGTERM)
        release_tools(server)
        assert client.answer(1)["result"]["content"][0]["text"] == "done number 1"
        assert client.answer(2)["error"]["code"] == CLOSED
        assert client.stream.ends()
        assert_clean_exit(server)


def test_the_server_does_not_wait_for_a_disconnected_client_of_legacy_sse(tmp_path: Path) -> None:
    with run_ending_server(HANDSHAKE_HTTP, tmp_path) as server:
        client = Sse(server)
        client.begin(1, "stubborn")
        client.begin(2, "for_ever")
        client.stream.leave()
        server.wait_for_stderr("ended number 2")
        server.signal(SIGTERM)
        assert server.wait() == 0


def test_a_question_of_a_call_in_flight_can_still_be_answered_over_http(tmp_path: Path) -> None:
    with run_ending_server(HANDSHAKE_HTTP, tmp_path, profile=ASKED_CLIENT) as server:
        stream, question = ask_over_http(server)
        server.signal(SIGTERM)
        wait_until_draining(server)
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"well": "yes"}}}
        assert server.post(json.dumps(reply).encode()).status_code == 202
        stream.has("done asks")
        assert stream.ends()
        assert_clean_exit(server)


@pytest.mark.parametrize("how", ["SIGTERM", EOF])
def test_a_question_of_a_call_in_flight_can_be_answered_over_stdio_while_input_is_open(
    how: str, tmp_path: Path
) -> None:
    with run_ending_server(HANDSHAKE, tmp_path, profile=ASKED_CLIENT) as server:
        answer = server.send_call("asks", name="asks")
        question = wait_for_request(server, "elicitation/create")
        end_server(server, how)
        if how != EOF:
            wait_until_draining(server)
            content = {"action": "accept", "content": {"well": "yes"}}
            server.send({"jsonrpc": "2.0", "id": question["id"], "result": content})
        result = answer.result(TIMEOUT)["result"]
        assert result.get("isError", False) is (how == EOF)
        assert_clean_exit(server)


def test_an_unanswered_question_ends_in_time_with_an_error_result(tmp_path: Path) -> None:
    with run_ending_server(HANDSHAKE_HTTP, tmp_path, 0.3, profile=ASKED_CLIENT) as server:
        stream, _ = ask_over_http(server)
        server.signal(SIGTERM)
        assert stream.ends()
        assert "shutting down" in stream.messages[-1]["result"]["content"][0]["text"]
        assert_clean_exit(server)


def test_a_call_in_flight_can_be_cancelled_while_the_server_drains(tmp_path: Path) -> None:
    with run_ending_server(HANDSHAKE_HTTP, tmp_path) as server:
        request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
        request["params"] = {"name": "for_ever", "arguments": {"name": "call"}}
        stream = ResponseStream(server, "POST", "/mcp", json=request, headers=server.headers)
        server.wait_for_stderr("begun call")
        server.signal(SIGTERM)
        wait_until_draining(server)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert server.post(json.dumps(cancel).encode()).status_code == 202
        server.wait_for_stderr("ended call")
        assert stream.ends()
        assert_clean_exit(server)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_suspended_call_continues_while_others_are_in_flight(transport: str, tmp_path: Path) -> None:
    with run_ending_server(Way(transport, stateless=True), tmp_path, profile=ASKED_CLIENT) as server:
        call = {"name": "asks", "arguments": {"name": "asks"}}
        first_result = server.send_request("tools/call", call).result(TIMEOUT)["result"]
        other_call = begin_call(server, "waits", "other")
        server.signal(SIGTERM)
        wait_until_draining(server)
        (key,) = first_result["inputRequests"]
        answers = {key: {"action": "accept", "content": {"well": "yes"}}}
        next_call = {**call, "requestState": first_result["requestState"], "inputResponses": answers}
        assert wait_for_text(server.send_request("tools/call", next_call)).startswith("done asks")
        release_tools(server)
        assert wait_for_text(other_call) == "done other"
        assert_clean_exit(server)


def test_a_suspended_call_without_an_answer_does_not_delay_the_shutdown_and_can_clean_up(tmp_path: Path) -> None:
    with run_ending_server(STATELESS_HTTP, tmp_path, profile=ASKED_CLIENT) as server:
        suspended = server.send_call("asks", name="suspended").result(TIMEOUT)["result"]
        assert suspended["resultType"] == "input_required"
        server.signal(SIGTERM)
        assert_clean_exit(server)
        assert "ended suspended" in server.stderr


def test_no_process_remains_and_the_port_is_free(tmp_path: Path) -> None:
    with run_ending_server(HANDSHAKE_HTTP, tmp_path) as server:
        stream = open_session_stream(server)
        number, address = server.pid, urlsplit(server.base)
        assert not list(list_children(number))
        server.signal(SIGTERM)
        assert_clean_exit(server)
        assert stream.ends()
        assert address.port is not None
        with socket.create_server((str(address.hostname), address.port)):
            assert not list(list_children(number))


def ask_over_http(server: Any) -> tuple[ResponseStream, dict[str, Any]]:
    """Make a call with a question over HTTP, and return its stream and the question."""
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
    request["params"] = {"name": "asks", "arguments": {"name": "asks"}}
    stream = ResponseStream(server, "POST", "/mcp", json=request, headers=server.headers)
    stream.has("elicitation/create")
    return stream, next(message for message in stream.messages if message.get("method") == "elicitation/create")


def wait_for_request(server: Any, method: str) -> dict[str, Any]:
    """Wait for a request of a server over stdio, and return it."""
    wait_until(lambda: any(message.get("method") == method for message in server.received))
    found: dict[str, Any] = next(message for message in server.received if message.get("method") == method)
    return found
