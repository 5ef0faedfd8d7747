"""Copies the bytes of a tunnel, after a check of the server name with which TLS begins."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from mcp_bridge._runtime.egress.exchange import HttpPeer

MAX_HELLO = 64 * 1024
"""The maximum number of bytes of the first message of TLS."""
_TLS_HANDSHAKE = b"\x16"
"""The first byte of a TLS client (RFC 8446, section 5.1)."""
CheckName = Callable[[str], bool]


async def run_tunnel(client: HttpPeer, server: HttpPeer, check_name: CheckName) -> None:
    """Copy bytes between client and server until both have ended. `check_name` decides about the server name."""
    # The client may have sent the first bytes together with its request.
    data, _ = client.connection.trailing_data
    await client.send_bytes(b"HTTP/1.1 200 Connection established\r\n\r\n")
    async with asyncio.TaskGroup() as tasks:
        # Some protocols begin with a message of the server.
        copying = tasks.create_task(server.copy_to(client))
        if await _send_first_bytes(data, client, server, check_name):
            await client.copy_to(server)
        else:
            copying.cancel()


async def _send_first_bytes(data: bytes, client: HttpPeer, server: HttpPeer, check_name: CheckName) -> bool:
    """Send the first bytes of the client to the server and return True, or send it an alert and return False."""
    data = data or await client.receive_bytes()
    if data.startswith(_TLS_HANDSHAKE):
        hello = ClientHello()
        hello.add_bytes(data)
        while not hello.is_complete and len(data) < MAX_HELLO:
            more = await client.receive_bytes()
            if not more:
                break
            data += more
            hello.add_bytes(more)
        if not hello.is_complete or not all(check_name(name) for name in hello.server_names):
            await client.send_bytes(hello.read_alert())
            return False
    await server.send_bytes(data)
    return True


class ClientHello:
    """Reads the first message of a TLS client (RFC 8446, section 4.1.2) with OpenSSL, up to the server name.

    Attributes:
        is_complete: Whether the message was complete and valid.
        server_names: The server name of the message (RFC 6066, section 3), if there is one.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self.server_names: list[str] = []
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sni_callback = self._read_name
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def add_bytes(self, data: bytes) -> None:
        """Read more bytes of the message."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            # The handshake always ends here, with the alert of `_read_name` or that of an invalid message.
            pass

    def read_alert(self) -> bytes:
        """Return the alert of TLS for the client."""
        return self._outgoing.read()

    def _read_name(self, _: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> int:
        self.is_complete = True
        if name is not None:
            self.server_names.append(name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
