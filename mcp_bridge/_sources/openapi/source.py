"""OpenApiSource: the source of type `openapi`. It publishes the operations of an OpenAPI document as tools.

It also owns the HTTP client of their requests, and reads the document again after an edit if it is watched.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from mcp_bridge._contracts.errors import SourceError, ToolUnavailable
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceContext
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._json_schema.schema_checks import repair_tools
from mcp_bridge._runtime.http_client.requests import ApiRequest, HttpClientError, HttpResponse
from mcp_bridge._sources.openapi.credentials import ApiCredentials
from mcp_bridge._sources.openapi.document import read_document
from mcp_bridge._sources.openapi.operations import Operation, find_operations, name_operations
from mcp_bridge._sources.openapi.options import OpenApiOptions
from mcp_bridge._sources.openapi.tools import ToolBuilder

if TYPE_CHECKING:
    from mcp_bridge._runtime.http_client.client import HttpClient

logger = logging.getLogger("mcp_bridge.sources.openapi")

MAX_TOOLS = 5_000
"""The maximum number of operations that a source publishes."""
MAX_RESPONSE = 10 * 2**20
"""The maximum number of bytes of a response."""
MAX_NAMED = 5
"""The maximum number of operations that a message lists by name."""


class OpenApiSource(Source):
    """Publishes the operations of the API that a document describes.

    With `watch` in its context, the source reads the document again after an edit. If that fails, its tools stay.
    """

    Options = OpenApiOptions
    reads_secrets = True
    options: OpenApiOptions

    def __init__(self, name: str, options: OpenApiOptions, context: SourceContext) -> None:
        super().__init__(name, options, context)
        self._path = (context.directory / Path(options.document).expanduser()).resolve()
        self._client: HttpClient | None = None
        self._is_closed = False
        self._opening = anyio.Lock()

    @classmethod
    def choose_name(cls, options: OpenApiOptions) -> str:
        """Return the name of the document."""
        return Path(options.document).stem

    def list_files(self) -> Sequence[Path]:
        """Return the document if it exists."""
        return [self._path] if self._path.exists() else []

    async def run(self, publish: Publish) -> None:
        """Publish the operations. Raises SourceError if the document or a credential cannot be read."""
        try:
            publish(await self._load_offer())
            if self.context.watch:
                await self._publish_edits(publish)
            await anyio.sleep_forever()
        finally:
            self._is_closed = True
            if self._client is not None:
                with anyio.CancelScope(shield=True):
                    await self._client.close()

    async def _publish_edits(self, publish: Publish) -> None:
        from watchfiles import awatch

        async for _ in awatch(self._path.parent, watch_filter=lambda _, path: Path(path) == self._path):
            try:
                publish(await self._load_offer())
            except SourceError as error:
                logger.error("%s: the tools stay as they were", error)

    async def _load_offer(self) -> Offer:
        # A large document takes a while, and a shutdown must not wait for it.
        document = await to_thread.run_sync(read_document, self._path, abandon_on_cancel=True)
        options = self.options
        credentials = ApiCredentials(
            document=document,
            secrets=options.auth,
            headers=options.headers,
            fetch_token=self._fetch_token,
            add_secrets=self.services.hide_secrets,
        )
        if problems := credentials.find_problems():
            raise SourceError("\n".join(problems))
        await credentials.read_secrets()
        builder = ToolBuilder(
            document,
            credentials,
            self._send_request,
            server=options.server or "",
        )
        return await to_thread.run_sync(self._build_offer, builder, credentials, abandon_on_cancel=True)

    def _build_offer(self, builder: ToolBuilder, credentials: ApiCredentials) -> Offer:
        problems: list[str] = []
        document = credentials.document
        operations = name_operations(find_operations(document, problems, self.options.operations))
        if len(operations) > MAX_TOOLS:
            raise SourceError(f"it has {len(operations)} operations. Select at most {MAX_TOOLS} with `operations`")
        tools: list[ToolEntry] = []
        failures: dict[str, list[str]] = {}
        for name, operation in operations.items():
            try:
                tools.append(builder.build_entry(name, operation))
            except SourceError as error:
                failures.setdefault(str(error), []).append(operation.place)
        for failure, places in failures.items():
            # A document is often wrong in the same way at many operations, so there is one problem for all of them.
            if len(places) == 1:
                problems.append(f"{places[0]} is not published: {failure}")
            else:
                problems.append(f"{len(places)} operations are not published ({_list_places(places)}): {failure}")
        if not tools and not problems:
            raise SourceError(f"{self._path} has no operations that match `operations`")
        self._warn_of_missing_credentials(list(operations.values()), credentials)
        for line in builder.screen.list_changes():
            logger.info("source %r: %s", self.name, line)
        tools, notes = repair_tools(tools)
        return Offer(tools=tools, problems=problems, notes=notes, is_repaired=True)

    def _warn_of_missing_credentials(self, operations: Sequence[Operation], credentials: ApiCredentials) -> None:
        places: list[str] = []
        schemes: set[str] = set()
        for operation in operations:
            if credentials.choose_schemes(operation.content) is None:
                places.append(operation.place)
                schemes.update(credentials.list_required(operation.content))
        if places:
            logger.warning(
                "source %r: %d operations require credentials that the settings do not have (%s). Set auth.%s",
                self.name, len(places), _list_places(places), " or auth.".join(sorted(schemes)),
            )  # fmt: skip

    async def _send_request(self, request: ApiRequest) -> HttpResponse:
        client = await self._open_client()
        return await client.fetch_response(request)

    async def _open_client(self) -> HttpClient:
        """Return the HTTP client. The first call opens it, because its import would delay the start by 0.2 seconds."""

        def build_client() -> HttpClient:
            from mcp_bridge._runtime.http_client.addresses import AddressPolicy, parse_networks
            from mcp_bridge._runtime.http_client.client import HttpClient

            networks = parse_networks(self.options.allow_addresses)
            return HttpClient(AddressPolicy(networks), max_body=MAX_RESPONSE)

        if self._client is None:
            async with self._opening:
                if self._client is None and not self._is_closed:
                    self._client = await to_thread.run_sync(build_client)
        if self._client is None or self._is_closed:
            raise ToolUnavailable("The server is shutting down.")
        return self._client

    async def _fetch_token(self, url: str, form: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            response = await self._send_request(ApiRequest("POST", url, headers=headers, content=form.encode()))
        except HttpClientError as error:
            raise ToolUnavailable(f"The token could not be fetched: {error}.") from error
        return response.status, response.body


def _list_places(places: Sequence[str]) -> str:
    text = ", ".join(places[:MAX_NAMED])
    return f"{text} …" if len(places) > MAX_NAMED else text
