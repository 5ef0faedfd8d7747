"""The service of the simulated engine: `engine_service.py FOLDER` runs each container in a bubblewrap sandbox.

A container has a process id namespace of its own, whose first process is bubblewrap's, as with `--init`. Its files are
those of this machine's system and Python, an empty /tmp, and the mounts.
"""

from __future__ import annotations

import json
import os
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
            if container is not None:
                container.kill()
                container.wait()
            connection.close()
            return
        name = request["run"]
        stdin, stdout, stderr = descriptors
        container = subprocess.Popen(list(build_command(request)), stdin=stdin, stdout=stdout, stderr=stderr, env={})
        for descriptor in descriptors:
            os.close(descriptor)
        with self.lock:
            self.containers[name] = container
            self.list_names()
        code = container.wait()
        with self.lock:
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


def build_command(request: dict[str, Any]) -> Iterator[str]:
    """Yield the words of the command of bubblewrap."""
    yield from ("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    if request["network"] != "none":
        yield "--share-net"
    # This comes first, because a clone of the repository may be below /tmp.
    place, _, size = request["tmpfs"].partition(":size=")
    if place:
        yield from ("--size", size, "--tmpfs", place)
    python = {sys.prefix, sys.base_prefix, str(REPOSITORY / "mcp_bridge")}
    for path in sorted({"/usr", "/bin", "/lib", "/lib64", "/etc"} | python):
        yield from ("--ro-bind-try", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev")
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
