"""Binds policies to an entry: each policy decides once per entry whether it is a layer of the calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from mcp_bridge._contracts.policy import Layer, Middleware, Policy, Stage


class BoundPolicy(NamedTuple):
    """A policy, and its layer for the calls of one entry."""

    policy: Policy
    layer: Layer


def bind_policies(policies: Iterable[Policy], entry: Any) -> list[BoundPolicy]:
    """Bind the applicable policies to an entry, in the order of the stages."""
    bindings = []
    for policy in policies:
        layer = policy.bind(entry)
        if layer is not None:
            bindings.append(BoundPolicy(policy, policy.limit_layer(layer)))
    # Sorting is stable, so the policies of a stage keep their order.
    return sorted(bindings, key=lambda binding: binding.policy.stage)


def to_policy(middleware: Middleware | Policy) -> Policy:
    """Return a policy unchanged. For middleware, return a policy for every entry."""
    if isinstance(middleware, Policy):
        return middleware

    layer: Layer = middleware

    class MiddlewarePolicy(Policy):
        """Runs the middleware around every call."""

        name = type(middleware).__name__
        stage = Stage(middleware.stage)

        def bind(self, entry: Any) -> Layer | None:
            return layer

    return MiddlewarePolicy()
