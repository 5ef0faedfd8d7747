"""Sources of tools that belong to no integration. Each is a `Source`, and none imports another."""
