"""`worker`: runs the tasks of servers in Redis, until a signal arrives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_bridge._app.serve import run_on_event_loop, run_worker
from mcp_bridge._cli import logs
from mcp_bridge._cli.garbage_collection import enable_collections
from mcp_bridge._cli.options import WorkerOptions
from mcp_bridge._cli.output import format_count, format_entry_counts, report
from mcp_bridge._cli.process import manage_process
from mcp_bridge._cli.target import load_target
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.tasks import MEMORY
from mcp_bridge._runtime.stdio_descriptors import detach_stdin

if TYPE_CHECKING:
    from mcp_bridge._runtime.platform.server_supervisor import Supervisor


def run_tasks(options: WorkerOptions, guard: Supervisor | None) -> None:
    """Run tasks. `guard` is the process guard, if one is running. Raises ConfigError if no tasks are in Redis."""
    logs.configure_logging(options.log_level, options.log_file)
    with manage_process(guard) as signals, detach_stdin():
        target = load_target(options.file)
        bridge, settings = target.bridge, target.settings
        tasks = bridge.state.tasks
        if settings is None or settings.tasks is None or tasks is None or tasks.url == MEMORY:
            hint = "Write `tasks: {}`, and the Redis that the servers use: `state: {store: redis://HOST}`"
            raise ConfigError("there are no tasks in Redis", path=str(target.path), where="state.store", hint=hint)
        concurrency = options.concurrency or settings.tasks.concurrency
        tasks = tasks._replace(concurrency=concurrency, drain=bridge.drain)
        bridge.state = replace(bridge.state, tasks=tasks)
        enable_collections()

        def announce() -> None:
            release()
            limit = format_count(concurrency, "task")
            report(f"Running up to {limit} at once, with {format_entry_counts(bridge.registry)}. Press Ctrl-C to stop.")

        with logs.delay_start_errors() as release:
            run_on_event_loop(run_worker, bridge, announce, signals, loop_factory=target.loop_factory)
