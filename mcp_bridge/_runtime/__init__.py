"""Handles the process and its event loop: child processes, threads, descriptors, limits, and third-party code."""
