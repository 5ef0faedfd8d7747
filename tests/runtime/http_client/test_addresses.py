"""The allowed addresses of connections."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from mcp_bridge._runtime.http_client.addresses import AddressPolicy, parse_networks

PUBLIC = ["93.184.215.14", "2606:4700::1111", "64:ff9b::5db8:d70e", "2002:5db8:d70e::1"]
NOT_PUBLIC = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "192.0.0.8",
    "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "203.0.113.1", "224.0.0.251", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
    "2002:a9fe:a9fe::1", "2001:0:5db8:d70e:0:0:80ff:fffe", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
    "fec0::1", "ff02::1", "2001:db8::1", "64:ff9b:1::7f00:1", "100::1", "2001:20::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed_with_encryption(address: str) -> None:
    assert AddressPolicy().is_allowed(ip_address(address), encrypted=True)
    assert not AddressPolicy().is_allowed(ip_address(address), encrypted=False)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_private_addresses_are_rejected_in_all_their_forms(address: str) -> None:
    assert not AddressPolicy().is_allowed(ip_address(address), encrypted=True)


@pytest.mark.parametrize(
    ("networks", "address", "is_allowed"),
    [
        (["loopback"], "127.0.0.1", True),
        (["loopback"], "::1", True),
        (["loopback"], "::ffff:127.0.0.1", True),
        (["loopback"], "10.0.0.1", False),
        (["private"], "10.0.0.1", True),
        (["private"], "192.168.7.7", True),
        (["private"], "fd00::1", True),
        (["private"], "169.254.169.254", False),
        (["private"], "127.0.0.1", False),
        (["10.1.0.0/16", "fe80::/10"], "10.1.2.3", True),
        (["10.1.0.0/16", "fe80::/10"], "10.2.2.3", False),
        (["10.1.0.0/16", "fe80::/10"], "fe80::1", True),
        (["10.1.2.3"], "10.1.2.3", True),
    ],
)
def test_settings_can_allow_networks(networks: list[str], address: str, is_allowed: bool) -> None:
    policy = AddressPolicy(parse_networks(networks))
    for encrypted in (True, False):
        assert policy.is_allowed(ip_address(address), encrypted=encrypted) == is_allowed


@pytest.mark.parametrize("text", ["localhost", "10.0.0.1/8", "", "*", "10.0.0.0/33"])
def test_an_invalid_network_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected addresses, networks such as 10\.0\.0\.0/8, or loopback, private"):
        parse_networks([text])
