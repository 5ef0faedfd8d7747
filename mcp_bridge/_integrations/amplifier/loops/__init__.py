"""The orchestrators of this package. They run the loop of an agent (ORCHESTRATOR_CONTRACT)."""
