"""Xaibo's Tools Protocol, needing no xaibo."""
