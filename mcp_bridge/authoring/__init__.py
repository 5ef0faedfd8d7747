"""Decorators that turn functions into tools, resources and prompts."""

from mcp_bridge.authoring.prompts import prompt
from mcp_bridge.authoring.resources import resource
from mcp_bridge.authoring.tools import tool

__all__ = ["prompt", "resource", "tool"]
