"""The agent of a mount plan as one tool: its orchestrator runs with the plan's models, tools, hooks and context."""
