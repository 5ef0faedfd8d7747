"""Sources of tools that belong to no integration. Each is a `ToolSource`, and none imports another."""
