"""Shared servers (`serve --shared`): many clients use one running server, each through a small process, its relay."""
