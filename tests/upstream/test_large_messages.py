"""Messages with very many values are not parsed, because this would take much memory and time."""

from __future__ import annotations

import pytest

from mcp_bridge._upstream.messages import MessageReader

MANY = b"[" + b"{}," * 300_000 + b"0]"


@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"structuredContent":{"a":' + MANY + b"}}}",
        b'{"result":{"structuredContent":{"a":' + MANY + b'}},"jsonrpc":"2.0","id":7}',
    ],
)
def test_a_response_with_too_many_values_fails_its_request(message: bytes) -> None:
    error = MessageReader("server").read_message(message)
    assert error is not None
    assert error["id"] == 7
    assert "more than 250000 values" in error["error"]["message"]


def test_a_notification_with_too_many_values_is_dropped() -> None:
    message = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":' + MANY + b"}}"
    assert MessageReader("server").read_message(message) is None


def test_a_text_with_many_commas_is_read() -> None:
    message = b'{"jsonrpc":"2.0","id":7,"result":{"text":"' + b"{,[" * 200_000 + b'"}}'
    response = MessageReader("server").read_message(message)
    assert response is not None
    assert "result" in response
