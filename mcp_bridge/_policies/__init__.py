"""The policies of the settings, one file each. Their order is that of `POLICIES` in registry/plugins.py."""
