"""The orchestrator modules of this package: the loop of an agent (ORCHESTRATOR_CONTRACT)."""
