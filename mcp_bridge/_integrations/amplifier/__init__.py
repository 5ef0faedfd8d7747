"""Amplifier modules as tools, and the agents of Amplifier plans."""
