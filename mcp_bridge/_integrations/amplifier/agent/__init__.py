"""Publishes the agent of a mount plan as one tool, runs its orchestrator, and lets agents start others."""
