"""Serves the tool providers and agents of Xaibo as tools, and gives the tools of a registry to Xaibo's agents."""
