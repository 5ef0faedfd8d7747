"""Shared servers: one warm server for many clients, each with a small process of its own (`serve --shared`)."""
