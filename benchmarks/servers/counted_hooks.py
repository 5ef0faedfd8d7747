"""Hooks that let every call go on, written against whichever package the host has."""

from importlib import import_module

PACKAGES = {"native": "mcp_bridge.amplifier", "core": "amplifier_core"}


async def mount(coordinator, config):
    result = import_module(PACKAGES[config["host"]]).HookResult

    async def allow(event, data):
        return result(action="continue")

    coordinator.hooks.register("bench:never", allow)  # a module that mounts nothing is a problem
    for number in range(int(config["count"])):
        coordinator.hooks.register("tool:pre", allow, priority=number)
