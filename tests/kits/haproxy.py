"""Runs HAProxy in front of servers of a test, with the configuration of the example deployment."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.kits.upstream.upstream_kit import find_free_port
from tests.kits.waiting import wait_until

CONFIG = Path(__file__).parents[2] / "config" / "deploy" / "haproxy.cfg"


@contextlib.contextmanager
def run_haproxy(urls: Sequence[str], folder: Path) -> Iterator[str]:
    """Run a proxy for servers at these URLs, and yield its URL."""
    if not shutil.which("haproxy"):
        pytest.skip("haproxy is not installed (Debian: apt-get install haproxy)")
    address = f"127.0.0.1:{find_free_port()}"
    servers = "\n".join(
        f"  server s{number} {urlsplit(url).netloc} check inter 100ms" for number, url in enumerate(urls)
    )
    text, replaced = re.subn("  server-template .*", servers, CONFIG.read_text())
    assert replaced == 1
    (folder / "haproxy.cfg").write_text(text.replace("bind :8808", f"bind {address}"))
    with subprocess.Popen(["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]) as process:
        try:
            wait_until(lambda: _is_ready(f"http://{address}/health"))
            yield f"http://{address}{urlsplit(urls[0]).path}"
        finally:
            process.terminate()


def _is_ready(url: str) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(url).status_code == 200
    return False
