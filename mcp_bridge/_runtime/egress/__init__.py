"""Lets a sandboxed process without a network connect to the hosts of the settings, through a proxy outside."""
