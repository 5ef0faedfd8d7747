"""Adds the credentials of the settings to requests, according to the security schemes of a document.

References to credentials are read when the source starts, and again by the next call after a response with status 401.
Tokens of OAuth client credentials are fetched by the first call that needs them.
"""

from __future__ import annotations

import base64
import codecs
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

import anyio
import orjson
from anyio import to_thread
from pydantic import Field

from mcp_bridge._contracts.errors import SourceError, ToolUnavailable
from mcp_bridge._json_schema.walking import get_list, get_mapping
from mcp_bridge._runtime.http_client.requests import is_header_value
from mcp_bridge._settings.sections import SettingsModel
from mcp_bridge._sources.openapi.document import ApiDocument, Json, as_mapping
from mcp_bridge._upstream.trust.credentials import Credential, has_reference, read_credential

EXPIRY_MARGIN = 30.0
"""Seconds before its expiry at which a token is replaced."""
DEFAULT_LIFETIME = 300.0
"""Seconds for which a token is used if the server does not declare its lifetime."""


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
    """The additions of the settings to a request: credentials and headers."""

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
    """The credentials for one API.

    Attributes:
        secrets: The setting `auth`: credentials by the names of security schemes. Values may be references.
        headers: The setting `headers`. Values may be references.
        fetch_token: Requests a token.
        add_secrets: Has secrets redacted in everything clients receive.
    """

    document: ApiDocument
    secrets: Mapping[str, SecretSettings]
    headers: Mapping[str, str]
    fetch_token: TokenFetcher
    add_secrets: Callable[[Iterable[str]], None] = field(default=lambda secrets: None)
    # The values of `secrets` and `headers` with the targets of references, by their paths such as `auth.NAME.password`.
    _values: dict[str, str] = field(default_factory=dict)
    _has_values: bool = False
    _tokens: dict[str, _Token] = field(default_factory=dict)
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    def find_problems(self) -> list[str]:
        """Return a problem for each scheme of the settings that is unknown or not supported."""
        problems = []
        for name, secret in self.secrets.items():
            if name not in self.document.security_schemes:
                names = ", ".join(self.document.security_schemes) or "none"
                problems.append(f"auth.{name}: the document has no such security scheme. It has: {names}")
                continue
            problem = _find_problem(self.document.security_schemes[name], secret)
            if problem:
                problems.append(f"auth.{name}: {problem}")
        return problems

    def choose_schemes(self, operation: Json) -> tuple[str, ...] | None:
        """Return the schemes for an operation: the first of its alternatives whose credentials are all in the settings.

        An empty tuple means that the operation needs no credentials, and None that credentials are missing.
        """
        alternatives = self._list_alternatives(operation)
        usable_alternatives = [names for names in alternatives if self.secrets.keys() >= set(names)]
        for names in usable_alternatives:
            # An empty alternative makes credentials optional, so another one comes first.
            if names:
                return names
        return () if usable_alternatives or not alternatives else None

    def list_required(self, operation: Json) -> list[str]:
        """Return the names of all schemes in the alternatives of an operation."""
        return sorted(set(chain.from_iterable(self._list_alternatives(operation))))

    def _list_alternatives(self, operation: Json) -> list[tuple[str, ...]]:
        owner = operation if "security" in operation else self.document.data
        return [tuple(map(str, as_mapping(alternative))) for alternative in get_list(owner, "security")]

    def list_added(self, schemes: Iterable[str]) -> set[tuple[str, str]]:
        """Return the places and names of the parameters the settings add: headers, and keys of these schemes."""
        keys = {("header", name.lower()) for name in self.headers}
        for name in schemes:
            scheme = self.document.security_schemes[name]
            place, key = str(scheme.get("in")), str(scheme.get("name"))
            if scheme.get("type") == "apiKey":
                keys.add((place, key.lower() if place == "header" else key))
        return keys

    async def collect(self, schemes: Iterable[str]) -> RequestSecrets:
        """Return the additions to a request: the headers of the settings, and the credentials of these schemes.

        Raises SourceError if a credential cannot be read, ToolUnavailable if a token cannot be fetched.
        """
        if not self._has_values:
            await self.read_secrets()
        headers = {name: self._values[f"headers.{name}"] for name in self.headers}
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
        self._has_values = False
        self._tokens.clear()

    async def _apply(self, name: str) -> tuple[str, str, str]:
        """Return where the credentials of a scheme belong (header, query or cookie), and their name and value there."""
        scheme = self.document.security_schemes[name]
        value = self._values.get(f"auth.{name}", "")
        if scheme.get("type") == "apiKey":
            return str(scheme.get("in")), str(scheme.get("name")), value
        if scheme.get("type") == "http" and str(scheme.get("scheme")).lower() == "basic":
            username, password = self._values[f"auth.{name}.username"], self._values[f"auth.{name}.password"]
            return "header", "authorization", _encode_basic(username, password)
        if not value:
            # All calls share the token of the client in the settings (RFC 6749, 4.4).
            async with self._lock:
                token = self._tokens.get(name)
                if token is None or time.monotonic() >= token.expires:
                    token = self._tokens[name] = await self._fetch_token(name, scheme)
            value = token.value
        # A value with a space already names its scheme, such as "Token abc".
        return "header", "authorization", value if " " in value else f"Bearer {value}"

    async def _fetch_token(self, name: str, scheme: Json) -> _Token:
        secret = self.secrets[name]
        form = {"grant_type": "client_credentials"}
        if secret.scopes:
            form["scope"] = " ".join(secret.scopes)
        # RFC 6749, 2.3.1: the client's id and secret are percent-encoded before HTTP basic authentication.
        username = quote(self._values[f"auth.{name}.client_id"], safe="")
        password = quote(self._values[f"auth.{name}.client_secret"], safe="")
        headers = {
            "authorization": _encode_basic(username, password),
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
        """Read the targets of references. Raises SourceError."""
        credentials = await to_thread.run_sync(self._read_credentials, abandon_on_cancel=True)
        self.add_secrets([credential.secret for credential in credentials.values() if credential.secret])
        self._values = {key: credential.value for key, credential in credentials.items()}
        self._has_values = True

    def _read_credentials(self) -> dict[str, Credential]:
        """Return the values of `secrets` and `headers` by their paths, with the targets of references."""
        credentials: dict[str, Credential] = {}
        for name, text in self.headers.items():
            credentials[f"headers.{name}"] = Credential(text, "")
        for name, secret in self.secrets.items():
            for key in ("value", "username", "password", "client_id", "client_secret"):
                text = getattr(secret, key)
                if text:
                    path = f"auth.{name}" if key == "value" else f"auth.{name}.{key}"
                    is_secret = key not in ("username", "client_id")
                    credentials[path] = Credential(text, text if is_secret else "")
        for path, credential in credentials.items():
            if has_reference(credential.value):
                credentials[path] = read_credential(credential.value, path, os.environ)
            if not is_header_value(credentials[path].value):
                raise SourceError(
                    f"{path}: the credential has characters that a header cannot have, or spaces at its ends"
                )
        return credentials


def _encode_basic(username: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def _find_token_url(scheme: Json) -> str:
    flow = get_mapping(get_mapping(scheme, "flows"), "clientCredentials")
    return str(flow.get("tokenUrl") or "")


def _find_problem(scheme: Json, secret: SecretSettings) -> str:
    """Return why credentials do not suit a scheme, or an empty text."""
    scheme_type, name = scheme.get("type"), str(scheme.get("scheme") or "").lower()
    if scheme_type == "apiKey" and scheme.get("in") in ("header", "query", "cookie"):
        return "" if secret.value else "it is an API key. Write a reference such as env:NAME"
    if scheme_type == "http" and name == "basic":
        return "" if secret.username else "it needs `username` and `password`"
    if scheme_type in ("oauth2", "openIdConnect") and secret.client_id:
        has_url = secret.token_url or _find_token_url(scheme)
        return "" if has_url else "the document has no flow clientCredentials. Add `token_url`, or write a token"
    if scheme_type in ("oauth2", "openIdConnect") or (scheme_type == "http" and name):
        return "" if secret.value else "it needs a token. Write a reference such as env:NAME"
    return f"schemes of type '{scheme_type}' are not supported"


def draft_auth(document: ApiDocument) -> dict[str, Any]:
    """Return a draft of the setting `auth` for the security schemes of a document, with references to variables."""
    drafts: dict[str, Any] = {}
    for name, scheme in document.security_schemes.items():
        # `apiKey` becomes API_KEY.
        variable = re.sub(r"\W+|(?<=[a-z])(?=[A-Z])", "_", name).upper()
        if _find_problem(scheme, SecretSettings(username="-")) == "":
            drafts[name] = {"username": f"env:{variable}_USER", "password": f"env:{variable}_PASSWORD"}
        elif _find_problem(scheme, SecretSettings(client_id="-")) == "":
            drafts[name] = {"client_id": f"env:{variable}_ID", "client_secret": f"env:{variable}_SECRET"}
        elif _find_problem(scheme, SecretSettings(value="-")) == "":
            drafts[name] = f"env:{variable}"
    return drafts
