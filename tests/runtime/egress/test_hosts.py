"""The hosts of the settings are compared with the hosts of requests, and addresses are checked."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._runtime.egress.hosts import HostRules, parse_rule, parse_target


@pytest.mark.parametrize(
    ("rule", "target", "is_listed"),
    [
        ("api.example.com", "api.example.com:443", True),
        ("api.example.com", "api.example.com:80", True),
        ("api.example.com", "api.example.com:8443", False),
        ("api.example.com", "API.Example.COM.:443", True),
        ("Api.Example.com.", "api.example.com:443", True),
        ("api.example.com", "example.com:443", False),
        ("api.example.com", "evil-api.example.com:443", False),
        ("api.example.com", "api.example.com.evil.com:443", False),
        ("db.internal:5432", "db.internal:5432", True),
        ("db.internal:5432", "db.internal:443", False),
        ("*.example.com", "a.example.com:443", True),
        ("*.example.com", "a.b.example.com:443", True),
        ("*.example.com", "example.com:443", False),
        ("*.example.com", "evilexample.com:443", False),
        ("*.example.com:8443", "a.example.com:8443", True),
        ("*", "any.example.org:443", True),
        ("*", "192.0.2.1:443", False),
        ("*", "[2001:db8::1]:443", False),
        ("*:22", "any.example.org:22", True),
        ("192.0.2.1", "192.0.2.1:443", True),
        ("192.0.2.1", "192.0.2.2:443", False),
        ("192.0.2.1", "[::ffff:192.0.2.1]:443", False),
        ("192.0.2.1:8080", "192.0.2.1:8080", True),
        ("2001:DB8::0:1", "[2001:db8::1]:443", True),
        ("[2001:db8::1]:8080", "[2001:db8:0::1]:8080", True),
        ("xn--bcher-kva.example", "xn--bcher-kva.example:443", True),
    ],
)
def test_a_rule_lists_a_target(rule: str, target: str, is_listed: bool) -> None:
    assert HostRules.from_texts([rule]).includes(parse_target(target)) is is_listed


@pytest.mark.parametrize(
    "rule",
    [
        "", ".", "https://example.com", "example.com/path", "user@example.com", "a b", "example.com:0",
        "example.com:65536", "example.com:x", "*example.com", "a.*.com", "*.*.com", "*.192.0.2.1", "10.0.0.0/8", "**",
        "bücher.example", "example..com", "a" * 64 + ".com", "[::1", "::1%eth0", "127.1", "0x7f.1", "a.com\n", "*:",
    ],
)  # fmt: skip
def test_a_rule_that_is_no_host_is_rejected(rule: str) -> None:
    with pytest.raises(ValueError, match="expected a host such as"):
        parse_rule(rule)


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "a.0x1", "[::1%lo]", "a:443"])
def test_unusual_forms_of_addresses_are_no_targets(host: str) -> None:
    with pytest.raises(ValueError, match=r"host|port|address"):
        parse_target(f"{host}:443")


@pytest.mark.parametrize(
    ("hosts", "networks", "address", "is_allowed"),
    [
        (["a.com"], [], "93.184.215.14", True),
        (["a.com"], [], "127.0.0.1", False),
        (["a.com"], [], "10.1.2.3", False),
        (["a.com"], [], "169.254.169.254", False),
        (["a.com"], [], "::ffff:127.0.0.1", False),
        (["a.com"], [], "64:ff9b::7f00:1", False),
        (["a.com"], [], "0.0.0.0", False),
        (["a.com"], ["private"], "10.1.2.3", True),
        (["a.com"], ["private"], "127.0.0.1", False),
        (["a.com", "10.1.2.3"], [], "10.1.2.3", True),
        (["a.com", "10.1.2.3:5432"], [], "10.1.2.3", False),
    ],
)
def test_listed_names_lead_to_public_addresses_and_those_of_the_settings(
    hosts: list[str], networks: list[str], address: str, is_allowed: bool
) -> None:
    rules = HostRules.from_texts(hosts, networks)
    assert rules.is_allowed_address(ip_address(address), 443) is is_allowed


@given(st.text(alphabet="abc.*:[]0123456789xX-/@ \n", max_size=40))
def test_any_text_is_a_target_or_an_error(text: str) -> None:
    try:
        target = parse_target(text, 443)
    except ValueError:
        return
    # The normal form is stable, so two spellings of a host cannot be compared differently.
    assert parse_target(str(target)) == target
