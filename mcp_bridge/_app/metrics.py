"""Builds the metrics of a bridge for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._version import DISTRIBUTION

if TYPE_CHECKING:
    from mcp_bridge._server.prometheus import PrometheusMetrics


def build_metrics(bridge: Bridge) -> PrometheusMetrics:
    """Build the metrics, and record them from now on. Raises ConfigError without the extra `prometheus`."""
    try:
        from mcp_bridge._server.prometheus import PrometheusMetrics
    except ImportError:
        hint = f"Run `pip install '{DISTRIBUTION}[prometheus]'`"
        raise ConfigError("metrics need the package prometheus-client", where="http.metrics", hint=hint) from None
    metrics = PrometheusMetrics(bridge.list_states)
    bridge.endpoint.instrumentation.add_recorder(metrics)
    return metrics
