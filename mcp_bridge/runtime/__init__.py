"""The process and its event loop: children, threads, descriptors, limits, and guards around third-party code."""
