"""The examples, for the bridge."""

from benchmarks.servers.examples import add_examples
from mcp_bridge import CallContext, Image, ToolRegistry

registry = ToolRegistry()
add_examples(registry, CallContext, Image)
