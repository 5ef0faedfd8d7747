"""The options of isolation (IsolationOptions). Workers do not import them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from mcp_bridge._isolation.confinement import Confinement, PlainProcess
from mcp_bridge._isolation.order import WorkerLimits
from mcp_bridge._json_schema.uris import includes_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationOptions:
    """How tools are isolated.

    Attributes:
        tools: Patterns of the tools to run in workers. Without patterns, the whole source runs in workers.
        workers: The maximum number of processes. Each runs one call at a time.
        limits: The limits of each worker.
        env: The environment variables of workers, in addition to the usual ones.
        invokes: Patterns of the published tools that calls in workers may call, and of resources they may read.
        confinement: What workers can access.
        place: The place of the confinement in the settings, for errors.
    """

    tools: tuple[str, ...] = ()
    workers: int = 4
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    env: tuple[str, ...] = ()
    invokes: tuple[str, ...] = ("*",)
    confinement: Confinement = field(default_factory=PlainProcess)
    place: str = ""

    def can_invoke(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.invokes)

    def can_read(self, uri: str) -> bool:
        # Without patterns, `includes_uri` would include every resource.
        return bool(self.invokes) and includes_uri(self.invokes, uri)
