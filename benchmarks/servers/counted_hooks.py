"""Hooks that allow every call, for the package of the host."""

from importlib import import_module

PACKAGES = {"native": "mcp_bridge.amplifier", "core": "amplifier_core"}


async def mount(coordinator, config):
    result = import_module(PACKAGES[config["host"]]).HookResult

    async def allow(event, data):
        return result(action="continue")

    # A module that mounts nothing would be reported as a problem.
    coordinator.hooks.register("bench:never", allow)
    for number in range(int(config["count"])):
        coordinator.hooks.register("tool:pre", allow, priority=number)
