"""The bridge and its sources, a bridge made from settings, and how a bridge is served."""
