"""Where tools come from: one file a source, each a `ToolSource`; they never import each other."""
