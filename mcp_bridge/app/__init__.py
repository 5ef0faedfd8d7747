"""Everything put together: the bridge and its sources, a bridge made from settings, and how it is served."""
