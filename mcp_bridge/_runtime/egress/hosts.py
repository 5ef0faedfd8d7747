"""Decides to which hosts a sandboxed process may connect: names, wildcards and addresses, with their ports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple

from mcp_bridge._runtime.http_client.addresses import Address, AddressPolicy, Network, parse_networks

DEFAULT_PORTS = (443, 80)
"""The ports of a rule without a port."""
_NO_PORT = -1
_MAX_NAME = 253
_NAME = re.compile(r"([a-z0-9_-]{1,63}\.)*[a-z][a-z0-9-]{0,62}")
"""A host name. Its last label begins with a letter, because some resolvers read `127.1` and `0x7f.1` as addresses."""
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^:\[\]]*)(:(?P<port>[0-9]{1,5}))?")
"""A host and optional port (RFC 3986, section 3.2), in lower case."""


class HostPort(NamedTuple):
    """A host and port. The host is an address, or a name in lower case without a dot at its end."""

    host: str
    port: int

    def __str__(self) -> str:
        if ":" in self.host:
            return f"[{self.host}]:{self.port}"
        return f"{self.host}:{self.port}"


class HostRule(NamedTuple):
    """A rule of the settings: a name, a wildcard such as `*.example.com`, or an address, with its ports."""

    host: str
    ports: tuple[int, ...]

    def __str__(self) -> str:
        return self.host if self.ports == DEFAULT_PORTS else str(HostPort(self.host, self.ports[0]))

    def includes(self, target: HostPort) -> bool:
        """Whether the rule lists the target. A wildcard lists names with at least one more label, not addresses."""
        if target.port not in self.ports:
            return False
        if self.host.startswith("*") and parse_address(target.host) is None:
            return target.host.endswith(self.host[1:])
        return target.host == self.host


@dataclass(frozen=True, slots=True)
class HostRules:
    """The hosts that a process may connect to, and the addresses that their names may have.

    Attributes:
        rules: The listed hosts.
        networks: Networks of allowed addresses, in addition to public ones and listed ones.
    """

    rules: tuple[HostRule, ...]
    networks: tuple[Network, ...] = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self.rules))

    @classmethod
    def from_texts(cls, hosts: Iterable[str], networks: Iterable[str] = ()) -> HostRules:
        """Return the rules for the texts in the settings. Raises ValueError."""
        return cls(tuple(parse_rule(host) for host in hosts), parse_networks(networks))

    def includes(self, target: HostPort) -> bool:
        """Whether a rule lists the target."""
        return any(rule.includes(target) for rule in self.rules)

    def is_allowed_address(self, address: Address, port: int) -> bool:
        """Whether a listed host may have this address."""
        networks = list(self.networks)
        for rule in self.rules:
            rule_address = parse_address(rule.host)
            if rule_address is not None and port in rule.ports:
                networks.append(ip_network(rule_address))
        return AddressPolicy(tuple(networks)).is_allowed(address, encrypted=True)


def parse_rule(text: str) -> HostRule:
    """Parse a rule of the settings. Raises ValueError."""
    prefix, suffix = "", text
    if text.startswith("*."):
        prefix, suffix = "*.", text[2:]
    if text == "*" or text.startswith("*:"):
        # `parse_target` reads the port, but accepts no wildcard, so it gets the name `any` instead.
        prefix, suffix = "*", text.replace("*", "any", 1)
    try:
        target = parse_target(suffix, _NO_PORT)
        if prefix and parse_address(target.host) is not None:
            raise ValueError("a wildcard is followed by a name")
    except ValueError:
        examples = "api.github.com, *.example.com, db.example.com:5432 or 192.0.2.1"
        raise ValueError(f"expected a host such as {examples}, without https:// and paths; found '{text}'") from None
    host = prefix if prefix == "*" else prefix + target.host
    return HostRule(host, DEFAULT_PORTS if target.port == _NO_PORT else (target.port,))


def parse_target(text: str, default_port: int | None = None) -> HostPort:
    """Parse a host and port, as in a URL or the header Host. Raises ValueError, also for a port that is missing."""
    lowered = text.lower()
    # An IPv6 address without a port may have no brackets.
    if lowered.count(":") > 1 and not lowered.startswith("["):
        lowered = f"[{lowered}]"
    match = _AUTHORITY.fullmatch(lowered)
    if match is None:
        raise ValueError("not a host and port")
    port = default_port
    if match["port"] is not None:
        port = int(match["port"])
    if port is None or not (port == default_port or 0 < port <= 65535):
        raise ValueError("no valid port")
    host = match["host"]
    if host.startswith("["):
        return HostPort(IPv6Address(host[1:-1]).compressed, port)
    host = host.removesuffix(".")
    if parse_address(host) is None and (len(host) > _MAX_NAME or not _NAME.fullmatch(host)):
        raise ValueError("not the name of a host")
    return HostPort(host, port)


def parse_address(text: str) -> Address | None:
    """Return the IP address, or None for any other text."""
    try:
        return ip_address(text)
    except ValueError:
        return None
