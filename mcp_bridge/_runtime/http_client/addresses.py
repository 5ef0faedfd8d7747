"""Decides about the IP addresses for the HTTP client: public ones, and networks of the settings."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NAMED_NETWORKS = {
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
}
"""Words for networks. There is none for link-local addresses, because clouds serve credentials there."""
_NAT64 = IPv6Network("64:ff9b::/96")
"""Addresses that contain an IPv4 address in their last 32 bits (RFC 6052)."""
_SPECIAL = (
    IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"), IPv6Network("64:ff9b:1::/48"), IPv6Network("100::/64"),
    IPv6Network("2001::/23"), IPv6Network("fec0::/10"),
)  # fmt: skip
"""Networks that are not public, although `is_global` of some versions of Python is true for them."""


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks such as `10.0.0.0/8`, addresses, and the words in NAMED_NETWORKS. Raises ValueError."""
    networks: list[Network] = []
    for text in texts:
        try:
            networks += [ip_network(network) for network in NAMED_NETWORKS.get(text, (text,))]
        except ValueError:
            words = ", ".join(NAMED_NETWORKS)
            raise ValueError(f"expected addresses, networks such as 10.0.0.0/8, or {words}; found '{text}'") from None
    return tuple(networks)


def find_networks(addresses: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks in NAMED_NETWORKS with at least one of the addresses."""
    parsed_addresses = [ip_address(address) for address in addresses]
    networks = parse_networks(NAMED_NETWORKS)
    return tuple(network for network in networks if any(address in network for address in parsed_addresses))


class AddressPolicy(NamedTuple):
    """Allows public addresses and those in `networks`.

    Unencrypted connections are allowed only to `networks`, because others on the way can read and change them.
    """

    networks: tuple[Network, ...] = ()

    def is_allowed(self, address: Address, *, encrypted: bool) -> bool:
        """Whether an address is allowed. For an IPv6 address with IPv4 addresses inside, these decide."""
        is_public = True
        for target in list_targets(address):
            if any(target in network for network in self.networks):
                return True
            if target.is_multicast or not target.is_global or any(target in network for network in _SPECIAL):
                is_public = False
        return encrypted and is_public


def list_targets(address: Address) -> list[Address]:
    """List the possible targets of a connection: the IPv4 addresses inside an IPv6 address, or the address."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if address in _NAT64:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address]
