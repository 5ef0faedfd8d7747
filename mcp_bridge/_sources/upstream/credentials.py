"""The address of a server whose headers or environment variables refer to credentials.

The references are resolved for each connection, so changed credentials are used after a new connection at the latest.
Over HTTP, `ReadValues` reads them again when the server rejects a request.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from anyio import to_thread

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.http_client.requests import is_header_value
from mcp_bridge._upstream.connection import UpstreamAddress
from mcp_bridge._upstream.messages import Receiver
from mcp_bridge._upstream.session import UpstreamChannel
from mcp_bridge._upstream.trust.credentials import Credential, has_reference, read_credentials

Values = Mapping[str, str]
ReadValues = Callable[[], Awaitable[Values]]


class StoredAuth(Protocol):
    """Adds the tokens from `mcp-bridge login` to requests."""

    add_secrets: Callable[[Iterable[str]], None]

    async def load_tokens(self) -> None:
        """Read the tokens. Raises SourceError if the user has not signed in."""


@dataclass(slots=True)
class CredentialAddress:
    """An address that is built for each connection, with the current credentials.

    Attributes:
        key: The setting with the values: `headers` or `env`.
        values: The values of the setting. Some of them are references.
        build: Builds the address from resolved values and a function that reads them again.
        auth: Adds the tokens of a sign-in, or None.
        add_secrets: Has secrets redacted in everything clients receive.
    """

    label: str
    key: str
    values: Values
    build: Callable[[Values, ReadValues | None], UpstreamAddress]
    auth: StoredAuth | None = None
    add_secrets: Callable[[Iterable[str]], None] = field(default=lambda secrets: None)

    @asynccontextmanager
    async def open_channel(self, receive: Receiver, on_end: Callable[[str], None]) -> AsyncIterator[UpstreamChannel]:
        """Read the credentials and yield a channel. Raises SourceError if one cannot be read."""
        values = await self.read_values()
        if self.auth is not None:
            self.auth.add_secrets = self.add_secrets
            await self.auth.load_tokens()
        async with self.build(values, self.read_values).open_channel(receive, on_end) as channel:
            yield channel

    async def read_values(self) -> Values:
        """Return the values with the credentials. Raises SourceError if one cannot be read."""
        credentials = await to_thread.run_sync(self._read_credentials, abandon_on_cancel=True)
        self.add_secrets([credential.secret for credential in credentials.values()])
        return {**self.values, **{name: credential.value for name, credential in credentials.items()}}

    def _read_credentials(self) -> dict[str, Credential]:
        credentials = read_credentials(self.values, self.key, os.environ)
        for name, credential in credentials.items():
            if self.key == "headers" and not is_header_value(credential.secret):
                problem = "the credential has characters that a header cannot have, or spaces at its ends"
                raise SourceError(f"{self.key}.{name}: {problem}")
        return credentials


def resolve_later(
    key: str,
    values: Values,
    build: Callable[[Values, ReadValues | None], UpstreamAddress],
    auth: StoredAuth | None = None,
) -> UpstreamAddress:
    """Return the address that `build` makes from the values, or a CredentialAddress if they refer to credentials."""
    address = build(values, None)
    if auth is not None or any(map(has_reference, values.values())):
        return CredentialAddress(address.label, key, values, build, auth)
    return address
