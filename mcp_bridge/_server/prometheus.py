"""PrometheusMetrics: the metrics of a server at /metrics. Only this module imports prometheus_client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from mcp_bridge._contracts.source import SourceState
from mcp_bridge._server.metrics import BUCKETS, CODE, DESCRIPTIONS, OPERATION, SESSION
from mcp_bridge._version import __version__

_CONNECTION = ("mcp.protocol.version", "network.transport")
_ATTRIBUTES = {
    OPERATION: (
        "mcp.method.name",
        "gen_ai.tool.name",
        "gen_ai.prompt.name",
        "error.type",
        "rpc.response.status_code",
        CODE,
        *_CONNECTION,
    ),
    SESSION: _CONNECTION,
}
"""The attributes that become labels of each metric. If a message lacks one, its label is empty."""


class PrometheusMetrics:
    """Records durations, and renders them with the states of sources and figures of the process.

    `list_states` returns the states of sources by name.
    """

    def __init__(self, list_states: Callable[[], Mapping[str, str]] = dict) -> None:
        self._registry = registry = CollectorRegistry()
        self._histograms = {name: _make_histogram(name, registry) for name in DESCRIPTIONS}
        info = Gauge("mcp_bridge_info", "The version of mcp-bridge.", ["version"], registry=registry)
        info.labels(__version__).set(1)
        ProcessCollector(registry=registry)
        registry.register(SourceCollector(list_states))

    def record_duration(self, metric: str, seconds: float, attributes: Mapping[str, str]) -> None:
        labels = [attributes.get(name, "") for name in _ATTRIBUTES[metric]]
        self._histograms[metric].labels(*labels).observe(seconds)

    def render_metrics(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the text, in the preferred format of the header Accept."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)


class SourceCollector(Collector):
    """Collects whether each source that has a state, such as an upstream, is ready."""

    def __init__(self, list_states: Callable[[], Mapping[str, str]]) -> None:
        self._list_states = list_states

    def collect(self) -> Iterator[GaugeMetricFamily]:
        ready = GaugeMetricFamily("mcp_bridge_source_ready", "Whether a source is ready.", labels=["source"])
        for name, state in self._list_states().items():
            ready.add_metric([name], float(state == SourceState.READY))
        yield ready


def _make_histogram(name: str, registry: CollectorRegistry) -> Histogram:
    labels = [_to_name(attribute) for attribute in _ATTRIBUTES[name]]
    return Histogram(f"{_to_name(name)}_seconds", DESCRIPTIONS[name], labels, buckets=BUCKETS, registry=registry)


def _to_name(name: str) -> str:
    return name.replace(".", "_")
