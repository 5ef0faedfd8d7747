"""The service of the simulated engine: `engine_service.py FOLDER` runs each container in a bubblewrap sandbox.

A container has a process id namespace of its own, whose first process is bubblewrap's, as with `--init`. Its files are
those of this machine's system and Python, empty ones in memory, the mounts, and the volumes of the image. A volume is a
folder in `volumes`, which is removed when its container ends by itself, or is removed with its volumes.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]


class Service:
    """Accepts one request on each connection: to run a container, or to remove it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.containers: dict[str, subprocess.Popen[bytes]] = {}
        self.kept_volumes: set[str] = set()
        self.lock = threading.Lock()

    def run(self) -> None:
        """Accept requests until this process is killed, which ends all containers."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / "service.sock"))
            listener.listen(64)
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self.handle, args=(connection,), daemon=True).start()

    def handle(self, connection: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        request = json.loads(data)
        if "remove" in request:
            with self.lock:
                container = self.containers.get(request["remove"])
                if not request["has_volumes"]:
                    self.kept_volumes.add(request["remove"])
            if container is not None:
                container.kill()
                container.wait()
            connection.close()
            return
        name = request["run"]
        stdin, stdout, stderr = descriptors
        volumes = self.folder / "volumes" / name
        for path in request["volumes"]:
            (volumes / path.lstrip("/")).mkdir(parents=True)
        command = list(build_command(request, volumes))
        container = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env={})
        for descriptor in descriptors:
            os.close(descriptor)
        with self.lock:
            self.containers[name] = container
            self.list_names()
        code = container.wait()
        with self.lock:
            if name not in self.kept_volumes:
                shutil.rmtree(volumes, ignore_errors=True)
            del self.containers[name]
            self.list_names()
        # The client may have been killed.
        try:
            connection.sendall(str(code if code >= 0 else 128 - code).encode())
        except OSError:
            pass
        connection.close()

    def list_names(self) -> None:
        """Write the names of the running containers."""
        path = self.folder / "containers.json"
        path.with_suffix(".new").write_text(json.dumps(sorted(self.containers)))
        path.with_suffix(".new").replace(path)


def build_command(request: dict[str, Any], volumes: Path) -> Iterator[str]:
    """Yield the words of the command of bubblewrap."""
    yield from ("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    if request["network"] != "none":
        yield "--share-net"
    yield from ("--proc", "/proc", "--dev", "/dev")
    if not request["has_writable_devices"]:
        yield from ("--remount-ro", "/dev")
    # These come before other files, because a clone of the repository may be below /tmp.
    for value in request["tmpfs"]:
        place, _, size = value.partition(":size=")
        yield from ("--size", size or "1048576", "--tmpfs", place)
    python = {sys.prefix, sys.base_prefix, str(REPOSITORY / "mcp_bridge")}
    for path in sorted({"/usr", "/bin", "/lib", "/lib64", "/etc"} | python):
        yield from ("--ro-bind-try", path, path)
    for path in request["volumes"]:
        yield from ("--bind", str(volumes / path.lstrip("/")), path)
    for mount in request["mounts"]:
        yield from ("--ro-bind" if "readonly" in mount else "--bind", mount["src"], mount["dst"])
    yield from ("--remount-ro", "/", "--chdir", request["directory"])
    # An image has its own path, with `python` in it.
    yield from ("--setenv", "PATH", f"{sys.prefix}/bin:/usr/bin:/bin")
    for name, value in request["env"].items():
        yield from ("--setenv", name, value)
    yield from ("--", *request["words"])


if __name__ == "__main__":
    Service(Path(sys.argv[1])).run()
