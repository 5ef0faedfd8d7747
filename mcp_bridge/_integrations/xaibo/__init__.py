"""Providers and agents of Xaibo as tools, and the registry as a provider."""
