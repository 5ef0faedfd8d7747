"""The process and its event loop: child processes, threads, descriptors, limits, and guards around other code."""
