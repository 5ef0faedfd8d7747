"""The program of the simulated engine: `engine_client.py docker|podman FOLDER ARGUMENT...`.

It checks its arguments as the real programs do, and lets the service in the folder run containers. Like theirs, its
containers do not end because this program ends: only their input ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.kits.isolation.engine_options import EngineError, RunOrder, parse_run

VERSIONS = {"docker": "Docker version 28.2.2, build e6534b4", "podman": "podman version 4.3.1"}
NO_DAEMON = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


class Client:
    """One run of the program."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.facts = json.loads((folder / "facts.json").read_text())

    def run(self, arguments: Sequence[str]) -> int:
        """Run a command and return its exit code. Raises EngineError."""
        with (self.folder / "commands.jsonl").open("a") as log:
            log.write(json.dumps({"arguments": list(arguments), "env": sorted(os.environ)}) + "\n")
        command, *words = arguments
        if command == "--version":
            print(VERSIONS[self.engine])
            return 0
        if command == "context" and self.engine == "docker":
            self.check_words(words, ["inspect", "--format", "{{.Endpoints.docker.Host}}"])
            print(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
            return 0
        if not self.facts["is_running"] and self.engine == "docker":
            raise EngineError(f"docker: {NO_DAEMON}" if command == "run" else NO_DAEMON, 125 if command == "run" else 1)
        if command == "info":
            self.check_words(words, ["--format", "{{json .}}"])
            print(json.dumps(self.facts[self.engine]))
            return 0
        if command == "image":
            self.check_words(words[:-1], ["inspect", "--format", "{{.Id}}"])
            self.check_image(words[-1], is_run=False)
            print("sha256:0")
            return 0
        if command == "run":
            order = parse_run(self.engine, words)
            self.check_order(order)
            return self.run_container(order)
        if command == "rm":
            self.check_words([word for word in words[:-1] if word != "--volumes"], ["--force"])
            with self.connect() as service:
                request = {"remove": words[-1], "has_volumes": "--volumes" in words}
                service.sendall(json.dumps(request).encode())
                service.recv(1)
            return 0
        raise EngineError(f"unrecognized command `{self.engine} {command}`")

    def check_words(self, words: Sequence[str], expected: Sequence[str]) -> None:
        if list(words) != expected:
            raise EngineError(f"unexpected arguments {words}")

    def check_image(self, image: str, *, is_run: bool) -> None:
        if image in self.facts["images"]:
            return
        if self.engine == "podman":
            text = f"Error: {image}: image not known"
            raise EngineError(text if is_run else f"Error: inspecting object: {image}: image not known")
        text = f"Error response from daemon: No such image: {image}"
        raise EngineError(f"docker: {text}" if is_run else text, 125 if is_run else 1)

    def check_order(self, order: RunOrder) -> None:
        """Check what the service of the engine would reject. Raises EngineError."""
        self.check_image(order.image, is_run=True)
        head = "Error: " if self.engine == "podman" else "docker: Error response from daemon: "
        places = [value.partition(":")[0] for value in order.options.get("--tmpfs", [])]
        for mount in order.list_mounts():
            if not os.path.exists(mount["src"]):
                text = f"statfs {mount['src']}: no such file or directory"
                if self.engine == "docker":
                    text = f'invalid mount config for type "bind": bind source path does not exist: {mount["src"]}'
                raise EngineError(head + text)
            if mount["dst"] in places:
                raise EngineError(f"{head}{mount['dst']}: duplicate mount destination")
            places.append(mount["dst"])
        network = order.get("--network", "bridge")
        if network not in ("none", "bridge", "host", *self.facts["networks"]):
            raise EngineError(f"{head}network {network} not found")
        program = order.get("--entrypoint")
        if program in self.facts["missing_programs"]:
            if self.engine == "podman":
                raise EngineError("ERROR (catatonit:2): failed to exec pid1: No such file or directory", 1)
            raise EngineError(f"[FATAL tini (7)] exec {program} failed: No such file or directory", 127)

    def choose_variables(self, order: RunOrder) -> dict[str, str]:
        """Return the variables of a container: those of the image, of the client's settings, and of the options."""
        variables = dict(self.facts["image_variables"])
        words = [item.partition("=") for item in order.options.get("--env", [])]
        if self.engine == "docker":
            names = {name for name, _, _ in words}
            variables |= {name: value for name, value in read_proxies().items() if name not in names}
        for name, has_value, value in words:
            if has_value or name in os.environ:
                variables[name] = value if has_value else os.environ[name]
            elif self.engine == "docker":
                variables.pop(name, None)
        return variables

    def connect(self) -> socket.socket:
        service = socket.socket(socket.AF_UNIX)
        service.connect(str(self.folder / "service.sock"))
        return service

    def run_container(self, order: RunOrder) -> int:
        """Run a container, with its own pipes, and return its exit code."""
        places, volumes = list(order.options.get("--tmpfs", [])), self.facts["volumes"]
        if self.engine == "podman":
            if order.get("--read-only-tmpfs") != "false":
                places += ["/run", "/var/tmp"]
            if order.get("--image-volume") == "ignore":
                volumes = []
        (stdin, sink), (source, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
        request = {
            "run": order.get("--name"),
            "words": [order.get("--entrypoint"), *order.words],
            "env": self.choose_variables(order),
            "mounts": order.list_mounts(),
            "tmpfs": places,
            "volumes": volumes,
            "has_writable_devices": order.get("--read-only-tmpfs") != "false",
            "directory": order.get("--workdir", "/"),
            "network": order.get("--network", "bridge"),
        }
        service = self.connect()
        socket.send_fds(service, [json.dumps(request).encode()], [stdin, stdout, stderr])
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        threading.Thread(target=copy, args=(0, sink), daemon=True).start()
        outputs = [threading.Thread(target=copy, args=pair) for pair in ((source, 1), (errors, 2))]
        for thread in outputs:
            thread.start()
        code = service.recv(8)
        for thread in outputs:
            thread.join()
        return int(code)


def read_proxies() -> dict[str, str]:
    """Return the variables from the proxies in the settings of the docker client (configfile.ParseProxyConfig)."""
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    if not (folder / "config.json").exists():
        return {}
    proxies = json.loads((folder / "config.json").read_text()).get("proxies", {}).get("default", {})
    names = [(f"{key.removesuffix('Proxy').upper()}_PROXY", value) for key, value in proxies.items()]
    return dict(names) | {name.lower(): value for name, value in names}


def copy(source: int, target: int) -> None:
    """Copy bytes from one descriptor to another until the end, and close the target unless it is a standard stream."""
    try:
        while data := os.read(source, 65_536):
            while data:
                data = data[os.write(target, data) :]
    except OSError:
        pass
    if target > 2:
        os.close(target)


def main() -> NoReturn:
    """Run the program, and end with its exit code."""
    engine, folder, *arguments = sys.argv[1:]
    try:
        code = Client(engine, Path(folder)).run(arguments)
    except EngineError as error:
        print(error, file=sys.stderr)
        code = error.code
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
