"""Adds the credentials of the settings to requests, as the security schemes of a document require.

Credentials are read when the first call needs them, and again after a response with status 401.
"""

from __future__ import annotations

import base64
import codecs
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

import anyio
import orjson
from anyio import to_thread
from pydantic import Field

from mcp_bridge._contracts.errors import SourceError, ToolUnavailable
from mcp_bridge._runtime.http_client.requests import is_header_value
from mcp_bridge._settings.sections import SettingsModel
from mcp_bridge._sources.openapi.document import ApiDocument, Json, as_mapping
from mcp_bridge._upstream.trust.credentials import Credential, has_reference, read_credential

EXPIRY_MARGIN = 30.0
"""Seconds before its expiry at which a token is replaced."""
DEFAULT_LIFETIME = 300.0
"""Seconds for which a token is used whose lifetime the server does not say."""


class SecretSettings(SettingsModel):
    """The credentials for a security scheme of the document. Values can be references, such as `env:NAME`."""

    value: str = Field(default="", description="The API key or the token. Text instead of a mapping is this value.")
    username: str = Field(default="", description="The user of HTTP basic authentication.")
    password: str = Field(default="", description="The password of this user.")
    client_id: str = Field(default="", description="The client that fetches tokens (OAuth 2.0 client credentials).")
    client_secret: str = Field(default="", description="The secret of this client.")
    scopes: tuple[str, ...] = Field(default=(), description="The scopes of these tokens.")
    token_url: str = Field(default="", description="Where tokens are fetched. Default: the URL in the document.")


class RequestSecrets(NamedTuple):
    """What credentials add to a request."""

    headers: Mapping[str, str] = {}
    query: str = ""
    cookies: tuple[str, ...] = ()


class TokenFetcher(Protocol):
    """Posts a form and returns the status and the body of the response."""

    async def __call__(self, url: str, form: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Raises ToolUnavailable."""


@dataclass(slots=True)
class _Token:
    value: str
    expires: float


@dataclass(slots=True, kw_only=True)
class ApiCredentials:
    """The credentials for one API. `given` are those of the settings by the name of the scheme."""

    document: ApiDocument
    given: Mapping[str, SecretSettings]
    headers: Mapping[str, str]
    fetch_token: TokenFetcher
    add_secrets: Callable[[Iterable[str]], None] = field(default=lambda secrets: None)
    _read: dict[str, str] = field(default_factory=dict)
    _is_read: bool = False
    _tokens: dict[str, _Token] = field(default_factory=dict)
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    def find_problems(self) -> list[str]:
        """Return a problem for each scheme that the document does not have, or that is not supported."""
        problems = []
        for name, secret in self.given.items():
            if name not in self.document.security_schemes:
                known = ", ".join(self.document.security_schemes) or "none"
                problems.append(f"auth.{name}: the document has no such security scheme. It has: {known}")
            elif problem := _find_problem(self.document.security_schemes[name], secret):
                problems.append(f"auth.{name}: {problem}")
        return problems

    def choose_schemes(self, operation: Json) -> tuple[str, ...] | None:
        """Return the schemes for an operation: the first of its alternatives whose credentials are all given.

        An empty tuple means that the operation needs none, None that credentials are missing.
        """
        required = operation.get("security", self.document.data.get("security"))
        if not isinstance(required, list) or not required:
            return ()
        alternatives = [tuple(map(str, as_mapping(one))) for one in required]
        usable = [names for names in alternatives if all(name in self.given for name in names)]
        return max(usable, key=bool, default=None)  # the first one with a scheme, else the empty one

    def list_required(self, operation: Json) -> list[str]:
        """Return the names of all schemes that an operation accepts."""
        required = operation.get("security", self.document.data.get("security"))
        return sorted({str(name) for one in required or () for name in as_mapping(one)})

    def list_added(self, schemes: Iterable[str]) -> set[tuple[str, str]]:
        """Return what the credentials of these schemes and the headers of the settings add: places and names."""
        added = {("header", name.lower()) for name in self.headers}
        for scheme in map(self.document.security_schemes.__getitem__, schemes):
            place, name = str(scheme.get("in")), str(scheme.get("name"))
            if scheme.get("type") == "apiKey":
                added.add((place, name.lower() if place == "header" else name))
        return added

    async def collect(self, schemes: Iterable[str]) -> RequestSecrets:
        """Return what the credentials of these schemes, and the headers of the settings, add to a request.

        Raises SourceError for a credential that cannot be read, ToolUnavailable for a token that cannot be fetched.
        """
        if not self._is_read:
            await self.read_secrets()
        headers = {name: self._read[f"headers.{name}"] for name in self.headers}
        query, cookies = [], []
        for name in schemes:
            place, key, value = await self._apply(name)
            if place == "query":
                query.append(f"{quote(key, safe='')}={quote(value, safe='')}")
            elif place == "cookie":
                cookies.append(f"{key}={value}")
            else:
                headers[key] = value
        return RequestSecrets(headers, "&".join(query), tuple(cookies))

    def forget(self) -> None:
        """Read the credentials again for the next call, because the server has rejected them."""
        self._is_read = False
        self._tokens.clear()

    async def _apply(self, name: str) -> tuple[str, str, str]:
        """Return where the credentials of a scheme go (header, query or cookie), and the name and the value there."""
        scheme = self.document.security_schemes[name]
        kind = scheme.get("type")
        value = self._read.get(f"auth.{name}", "")
        if kind == "apiKey":
            return str(scheme.get("in")), str(scheme.get("name")), value
        if kind == "http" and str(scheme.get("scheme")).lower() == "basic":
            username, password = self._read[f"auth.{name}.username"], self._read[f"auth.{name}.password"]
            return "header", "authorization", _encode_basic(username, password)
        if not value:
            value = await self._get_token(name, scheme)
        return "header", "authorization", value if " " in value else f"Bearer {value}"

    async def _get_token(self, name: str, scheme: Json) -> str:
        """Return a token for the client of the settings (RFC 6749, 4.4), fetched once for all calls."""
        async with self._lock:
            token = self._tokens.get(name)
            if token is None or time.monotonic() >= token.expires:
                token = self._tokens[name] = await self._fetch_token(name, scheme)
        return token.value

    async def _fetch_token(self, name: str, scheme: Json) -> _Token:
        secret = self.given[name]
        form = {"grant_type": "client_credentials"}
        if secret.scopes:
            form["scope"] = " ".join(secret.scopes)
        client = quote(self._read[f"auth.{name}.client_id"], safe=""), self._read[f"auth.{name}.client_secret"]
        headers = {
            "authorization": _encode_basic(client[0], quote(client[1], safe="")),
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        }
        status, body = await self.fetch_token(secret.token_url or _find_token_url(scheme), urlencode(form), headers)
        try:
            data = orjson.loads(body.removeprefix(codecs.BOM_UTF8))
            value = str(data["access_token"])
            if not is_header_value(value):
                raise ValueError("the token has characters that a header cannot have")
            lifetime = float(data.get("expires_in") or DEFAULT_LIFETIME)
        except (ValueError, KeyError, TypeError):
            raise ToolUnavailable(
                f"The token for '{name}' could not be fetched: the server responded with HTTP status {status} and "
                "without a token. Check the credentials of the client."
            ) from None
        self.add_secrets([value])
        return _Token(value, time.monotonic() + max(lifetime - EXPIRY_MARGIN, 0.0))

    async def read_secrets(self) -> None:
        """Read what the references lead to. Raises SourceError."""
        read = await to_thread.run_sync(self._read_references, abandon_on_cancel=True)
        self.add_secrets([one.secret for one in read.values() if one.secret])
        self._read = {key: one.value for key, one in read.items()}
        self._is_read = True

    def _read_references(self) -> dict[str, Credential]:
        """Return the values of the settings, each with the secret in it if it has one."""
        read: dict[str, Credential] = {}
        for key, text, is_secret in self._list_given_values():
            if has_reference(text):
                read[key] = read_credential(text, key, os.environ)
            else:
                read[key] = Credential(text, text if is_secret else "")
            if not is_header_value(read[key].value):
                raise SourceError(
                    f"{key}: the credential has characters that a header cannot have, or spaces at its ends"
                )
        return read

    def _list_given_values(self) -> Iterator[tuple[str, str, bool]]:
        for name, value in self.headers.items():
            yield f"headers.{name}", value, False
        for name, secret in self.given.items():
            for key in ("value", "username", "password", "client_id", "client_secret"):
                if text := getattr(secret, key):
                    yield (
                        f"auth.{name}" if key == "value" else f"auth.{name}.{key}",
                        text,
                        key not in ("username", "client_id"),
                    )


def _encode_basic(username: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def _find_token_url(scheme: Json) -> str:
    flow = as_mapping(as_mapping(scheme.get("flows")).get("clientCredentials"))
    return str(flow.get("tokenUrl") or "")


def _find_problem(scheme: Json, secret: SecretSettings) -> str:
    """Return why credentials do not suit a scheme, or an empty text."""
    kind, name = scheme.get("type"), str(scheme.get("scheme") or "").lower()
    if kind == "apiKey" and scheme.get("in") in ("header", "query", "cookie"):
        return "" if secret.value else "it is an API key. Write a reference such as env:NAME"
    if kind == "http" and name == "basic":
        return "" if secret.username else "it needs `username` and `password`"
    if kind in ("oauth2", "openIdConnect") and secret.client_id:
        has_url = secret.token_url or _find_token_url(scheme)
        return "" if has_url else "the document has no flow clientCredentials. Add `token_url`, or write a token"
    if kind in ("oauth2", "openIdConnect") or (kind == "http" and name):
        return "" if secret.value else "it needs a token. Write a reference such as env:NAME"
    return f"schemes of type '{kind}' are not supported"


def draft_auth(document: ApiDocument) -> dict[str, Any]:
    """Return a draft of the setting `auth` for the security schemes of a document, with references to variables."""
    drafts: dict[str, Any] = {}
    for name, scheme in document.security_schemes.items():
        variable = re.sub(r"\W+|(?<=[a-z])(?=[A-Z])", "_", name).upper()
        if _find_problem(scheme, SecretSettings(username="-")) == "":
            drafts[name] = {"username": f"env:{variable}_USER", "password": f"env:{variable}_PASSWORD"}
        elif _find_problem(scheme, SecretSettings(client_id="-")) == "":
            drafts[name] = {"client_id": f"env:{variable}_ID", "client_secret": f"env:{variable}_SECRET"}
        elif _find_problem(scheme, SecretSettings(value="-")) == "":
            drafts[name] = f"env:{variable}"
    return drafts
