"""Containers of docker or podman for programs: finds and checks the engine, and builds its command lines."""
