"""The address of a server with references to credentials in its headers or environment variables."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from anyio import to_thread

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._upstream.connection import UpstreamAddress
from mcp_bridge._upstream.messages import Receiver
from mcp_bridge._upstream.session import UpstreamChannel
from mcp_bridge._upstream.trust.credentials import Credential, has_reference, read_credential

Values = Mapping[str, str]
ReadValues = Callable[[], Awaitable[Values]]


class StoredAuth(Protocol):
    """Signs requests with the tokens from a sign-in of the user."""

    add_secrets: Callable[[Iterable[str]], None]

    async def load_tokens(self) -> None:
        """Read the tokens. Raises SourceError if the user has not signed in."""


@dataclass(slots=True)
class CredentialAddress:
    """An address that is built for each connection, with the credentials behind `values` at this time.

    `build` also gets a function to read them again.
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
        references = {name: value for name, value in self.values.items() if has_reference(value)}
        credentials = {
            name: read_credential(value, f"{self.key}.{name}", os.environ) for name, value in references.items()
        }
        for name, credential in credentials.items():
            if self.key == "headers" and not (credential.secret.isascii() and credential.secret.isprintable()):
                raise SourceError(f"{self.key}.{name}: the credential has characters that a header cannot have")
        return credentials


def resolve_later(
    key: str,
    values: Values,
    build: Callable[[Values, ReadValues | None], UpstreamAddress],
    auth: StoredAuth | None = None,
) -> UpstreamAddress:
    """Build an address from values. If they refer to credentials, these are read for each connection."""
    address = build(values, None)
    if auth is not None or any(map(has_reference, values.values())):
        return CredentialAddress(address.label, key, values, build, auth)
    return address
