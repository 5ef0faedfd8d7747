"""Addresses of modules in git: their forms, and the patterns of the settings."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._integrations.amplifier.source.git import GitAddress, is_git_source, parse_address
from mcp_bridge.amplifier import ModuleNotFoundError


@pytest.mark.parametrize(
    ("uri", "url", "ref", "subdirectory"),
    [
        ("git+https://host/a/b", "https://host/a/b", "", ""),
        ("git+https://host/a/b.git@main", "https://host/a/b.git", "main", ""),
        ("git+https://host:8443/a@feature/x-1.2", "https://host:8443/a", "feature/x-1.2", ""),
        ("git+https://[::1]:80/a@v1", "https://[::1]:80/a", "v1", ""),
        ("git+https://host/a@main#subdirectory=modules/tool-x", "https://host/a", "main", "modules/tool-x"),
        ("git+https://host/a#subdirectory=x/&egg=name", "https://host/a", "", "x"),
        ("git+https://host/a#subdirectory=with%20space", "https://host/a", "", "with space"),
        ("git+ssh://git@host/a@refs/tags/v1", "ssh://git@host/a", "refs/tags/v1", ""),
        ("git+ssh://host:22/a", "ssh://host:22/a", "", ""),
        ("git+file:///srv/a%40b@main", "file:///srv/a%40b", "main", ""),
        ("git+file:///C:/srv/a", "file:///C:/srv/a", "", ""),
    ],
)
def test_an_address_has_a_repository_a_ref_and_a_subdirectory(uri: str, url: str, ref: str, subdirectory: str) -> None:
    assert is_git_source(uri)
    assert parse_address(uri) == GitAddress(uri, url, ref, subdirectory)


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("git+http://host/a", "'http'"),
        ("git+ext::sh -c touch% /tmp/x", "spaces"),
        ("git+--upload-pack=x", "has the scheme ''"),
        ("git+https:///a", "has no valid host"),
        ("git+https://-oProxyCommand=x/a", "has no valid host"),
        ("git+ssh://-oProxyCommand=x/a", "has no valid host"),
        ("git+ssh://-oProxyCommand=x@host/a", "has an invalid user"),
        ("git+https://host%2F/a", "has no valid host"),
        ("git+https://hóst/a", "has no valid host"),
        ("git+https://host:port/a", "has no valid host"),
        ("git+https://[::1/a", "cannot be read"),
        ("git+https://host/a?token=x", "has a query"),
        ("git+https://host/a?", "has a query"),
        ("git+https://host\\@other/a", "backslashes"),
        ("git+https://host/a\n", "control characters"),
        ("git+https://host", "has no absolute path"),
        ("git+https://host/org/%2e%2E/other/a", "segments such as '..'"),
        ("git+https://host/org%2F..%2Fother", "segments such as '..'"),
        ("git+https://host/org/./a", "segments such as '..'"),
        ("git+https://host/org//a", "segments such as '..'"),
        ("git+file:a", "no absolute path"),
        ("git+file://host/a", "not absolute"),
        ("git+file://../a", "not absolute"),
        ("git+https://host/a@", "''"),
        ("git+https://host/a@--upload-pack=x", "'--upload-pack=x'"),
        ("git+https://host/a@main:other", "'main:other'"),
        ("git+https://host/a@+main", r"'\+main'"),
        ("git+https://host/a@HEAD~1", "'HEAD~1'"),
        ("git+https://host/a@a..b", r"'a\.\.b'"),
        ("git+https://host/a@x/", "'x/'"),
        ("git+https://host/a@refs/heads/*", r"'refs/heads/\*'"),
        ("git+https://host/a#subdirectory=x/../../y", "has '#"),
        ("git+https://host/a#subdirectory=%2e%2e", "has '#"),
        ("git+https://host/a#subdirectory=.git", "has '#"),
        ("git+https://host/a#subdirectory=C:/x", "has '#"),
        ("git+https://host/a#subdir=x", "has '#subdir=x'"),
        ("git+https://host/a#x", "has '#x'"),
    ],
)
def test_an_ambiguous_address_is_rejected(uri: str, problem: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=problem):
        parse_address(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "git+https://me:passw0rd@host/a",
        "git+https://passw0rd@host/a",
        "git+https://:passw0rd@host/a@main",
        "git+ssh://me:passw0rd@host/a",
        "git+file://passw0rd@/a",
        "git+http://passw0rd@host/a",
        "git+https://me:passw0rd@host/a b",
    ],
)
def test_credentials_are_rejected_and_not_shown(uri: str) -> None:
    with pytest.raises(ModuleNotFoundError) as error:
        parse_address(uri)
    assert "passw0rd" not in str(error.value)
    assert "***@" in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "is_allowed"),
    [
        ("https://host/org/*", True),
        ("git+https://host/org/*", True),
        ("https://host/org/tool-?", True),
        ("https://host/org/tool-x", True),
        ("*", True),
        ("https://host/org", False),
        ("https://HOST/org/*", False),
        ("host/org/*", False),
        ("https://host/org/tool-x@main", False),
        ("", False),
    ],
)
def test_a_pattern_allows_a_repository_with_any_ref(pattern: str, is_allowed: bool) -> None:
    address = parse_address("git+https://host/org/tool-x@main#subdirectory=a")
    assert address.is_allowed([pattern]) is is_allowed
    assert address.is_allowed(["https://other/*", pattern]) is is_allowed


def test_the_error_for_a_repository_has_the_line_that_allows_it() -> None:
    address = parse_address("git+https://host/org/tool-x@main")
    with pytest.raises(ModuleNotFoundError, match=r"is not allowed.*git: \['https://host/org/tool-x'\]"):
        address.require_allowed(())
    address.require_allowed(["https://host/org/tool-x"])
    assert not parse_address("git+https://host/org/tool-y").is_allowed(["https://host/org/tool-x"])


BEGINNINGS = ["", "https://", "https://host/", "ssh://", "ssh://me@", "file:", "file:///", "file:///srv/a@"]
PIECES = ["git+", "https:", "//", "/", "@", ":", "-", "..", "#", "?", "%2e", "%2F", "subdirectory=", "host", "main"]
ODD = ["\\", " ", "[::1]", "&", "=", "\n", "{", "*", "ext::", "--", "%", "a", "b"]


@given(st.sampled_from(BEGINNINGS), st.lists(st.sampled_from([*PIECES, *ODD]) | st.text(max_size=2), max_size=8))
def test_git_gets_a_plain_url_and_a_plain_ref_for_any_address(beginning: str, pieces: list[str]) -> None:
    text = beginning + "".join(pieces)
    with contextlib.suppress(ModuleNotFoundError):
        address = parse_address(f"git+{text}")
        authority, _, path = address.url.partition("://")[2].partition("/")
        assert re.fullmatch(r"(https|ssh|file)", address.scheme)
        assert not re.search(r"[\s\\\x00-\x1f?#]", address.url)
        assert not authority.startswith("-")
        assert (":" in authority.rpartition("@")[0]) is False
        assert ("@" in authority) <= (address.scheme == "ssh")
        assert not {"", ".", ".."} & set(path.removesuffix("/").split("/"))
        assert not re.match(r"[-+:^]", address.ref)
        assert not {".", ".."} & set(address.subdirectory.split("/"))
