"""The addresses of modules in git repositories: what they name, and whether the settings allow it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl, unquote, urlsplit

from mcp_bridge.amplifier.errors import ModuleNotFoundError

PREFIX = "git+"
SCHEMES = ("https", "ssh", "file")
"""What repositories may be reached by; git knows others, some of which run commands."""
_LIKE = "Write it as git+https://HOST/PATH@REF, with #subdirectory=FOLDER where the module is not at the top"
_REF = re.compile(r"(?!.*(?:\.\.|//|\.lock$|\.lock/|/$|\.$))[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
COMMIT = re.compile(r"[0-9a-f]{40}")
"""A whole commit."""
_USERINFO = re.compile(r"//[^/@]*@")


@dataclass(frozen=True, slots=True)
class Address:
    """One module in a repository: `url` is the repository's, `ref` empty for its default branch."""

    uri: str
    url: str
    ref: str = ""
    subdirectory: str = ""

    @property
    def scheme(self) -> str:
        """What the repository is reached by."""
        return self.url.partition(":")[0]

    def is_allowed(self, patterns: Sequence[str]) -> bool:
        """Whether one of the patterns fits the repository, with or without the leading `git+`."""
        return any(fnmatchcase(self.url, pattern.removeprefix(PREFIX)) for pattern in patterns)

    def check(self, patterns: Sequence[str]) -> None:
        """Raises ModuleNotFoundError, with the line to write, where the settings do not allow it."""
        if not self.is_allowed(patterns):
            raise ModuleNotFoundError(
                f"{self.uri} is not allowed. If you trust what is there, write beside 'plan', or at the top of a file "
                f"that is a plan itself: git: [{self.url!r}]"
            )


def is_git(source: object) -> bool:
    """Whether a source of a plan is in a git repository."""
    return isinstance(source, str) and source.startswith(PREFIX)


def parsed(uri: str) -> Address:
    """What an address says. Raises ModuleNotFoundError for one that nothing is fetched from, and says why."""
    if not uri.isprintable() or " " in uri or "\\" in uri:
        raise ModuleNotFoundError(f"{shown(uri)!r} has spaces, backslashes or control characters in it. {_LIKE}")
    try:
        parts = urlsplit(uri.removeprefix(PREFIX))
        userinfo, _, host = parts.netloc.rpartition("@")
    except ValueError as error:
        raise _wrong(uri, f"cannot be read: {error}") from None
    if parts.scheme not in SCHEMES:
        raise _wrong(uri, f"is reached by '{parts.scheme}', and not by one of: {', '.join(SCHEMES)}")
    _check_authority(uri, parts.scheme, userinfo, host)
    if parts.query or uri.endswith("?"):
        raise _wrong(uri, "has a query")
    path, at, ref = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
    if at and not _REF.fullmatch(ref):
        raise _wrong(uri, f"has {ref!r} for a branch, tag or commit")
    if not path.startswith("/") or any({"", ".", ".."} & set(_steps(each)) for each in (path, unquote(path))):
        raise _wrong(uri, "has no whole path of a repository, or steps such as '..' in it")
    return Address(uri, f"{parts.scheme}://{parts.netloc}{path}", ref, _subdirectory(uri, parts.fragment))


def _steps(path: str) -> list[str]:
    return path.removeprefix("/").removesuffix("/").split("/")


def _check_authority(uri: str, scheme: str, userinfo: str, host: str) -> None:
    if userinfo and (scheme != "ssh" or ":" in userinfo):
        raise _wrong(uri, "has credentials in it. Leave them to ~/.netrc, or use ssh with an agent")
    if userinfo and not _USER.fullmatch(userinfo):
        raise _wrong(uri, "has no such user")
    if scheme == "file" and host:
        raise _wrong(uri, "has a host, or its path is not absolute: git+file:///PATH@REF")
    if scheme != "file" and not _HOST.fullmatch(host):
        raise _wrong(uri, "has no host")


def _subdirectory(uri: str, fragment: str) -> str:
    try:
        given = dict(parse_qsl(fragment, keep_blank_values=True, strict_parsing=bool(fragment)))
    except ValueError:
        raise _wrong(uri, f"has '#{fragment}'") from None
    found = given.pop("subdirectory", "").strip("/")
    given.pop("egg", None)  # pip's name for the package, which is of no use here
    steps = found.split("/")
    if given or (found and ({"", ".", "..", ".git"} & set(steps) or ":" in found or not found.isprintable())):
        raise _wrong(uri, f"has '#{fragment}'")
    return found


def _wrong(uri: str, problem: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"{shown(uri)} {problem}. {_LIKE}")


def shown(uri: str) -> str:
    """An address without what may be a password."""
    return _USERINFO.sub("//***@", uri)
