"""PrometheusMetrics: the metrics of a server at /metrics, also of several processes.

Only this module imports prometheus_client.
"""

from __future__ import annotations

import re
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
_SAMPLE_NAME = re.compile(rb"[A-Za-z_:][\w:]*")


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


def merge_metrics(metrics: dict[str, bytes]) -> bytes:
    """Merge texts in a format of Prometheus, by the names of their workers. A family stays in one piece.

    >>> print(merge_metrics({"a": b"# HELP x X\\nx 1.0\\n", "b": b'# HELP x X\\nx{y="z"} 2.0\\n'}).decode())
    # HELP x X
    x{worker="a"} 1.0
    x{worker="b",y="z"} 2.0
    <BLANKLINE>
    """
    # The comments and the samples of each family.
    families: dict[bytes, tuple[dict[bytes, None], list[bytes]]] = {}
    end = b""
    for worker, text in metrics.items():
        family = b""
        for line in text.split(b"\n"):
            if line == b"# EOF":
                end = b"# EOF\n"
            elif line.startswith(b"#"):
                family = line.split(b" ")[2]
                families.setdefault(family, ({}, []))[0][line] = None
            elif line:
                families[family][1].append(_add_label(line, worker))
    lines: list[bytes] = []
    for comments, samples in families.values():
        lines += [*comments, *samples]
    return b"\n".join([*lines, end])


def _add_label(sample: bytes, worker: str) -> bytes:
    match = _SAMPLE_NAME.match(sample)
    assert match is not None
    labels = sample[match.end() :]
    separator = b"}"
    if labels.startswith(b"{"):
        separator, labels = b",", labels[1:]
    return b'%b{worker="%b"%b%b' % (match[0], worker.encode(), separator, labels)


def _make_histogram(name: str, registry: CollectorRegistry) -> Histogram:
    labels = [_to_name(attribute) for attribute in _ATTRIBUTES[name]]
    return Histogram(f"{_to_name(name)}_seconds", DESCRIPTIONS[name], labels, buckets=BUCKETS, registry=registry)


def _to_name(name: str) -> str:
    return name.replace(".", "_")
