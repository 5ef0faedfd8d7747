"""The policies of the settings, one file each. Their order is that of `POLICIES` in _engine/plugins.py."""
