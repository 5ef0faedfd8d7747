"""Fetching: the commit of a ref, and no code of a repository or of the user's settings."""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mcp_bridge._integrations.amplifier.source.git import Git, parse_address
from mcp_bridge.amplifier import ModuleLoadError
from tests.kits.amplifier.git_repositories import GIT, Repository, build_module


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with a module on main, and another commit on the branch `next`."""
    repo = Repository(tmp_path)
    repo.commit({"one.py": build_module("one", "first")})
    repo.commit({"one.py": build_module("one", "second")}, branch="next")
    return repo


def replace_git(folder: Path, script: str) -> dict[str, str]:
    """Return an environment with this script as git; the real one is `$GIT`."""
    program = folder / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nGIT={GIT}\n[ "$*" = --version ] && exec "$GIT" --version\n{script}\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}


@contextlib.contextmanager
def check_pipe(pipe: Path) -> Iterator[None]:
    """Check after the block: no process has this pipe open."""
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    yield
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            assert os.read(end, 1) == b""
            break
        except BlockingIOError:
            time.sleep(0.01)
    else:
        raise AssertionError("a process still runs")
    os.close(end)


class Files(SimpleHTTPRequestHandler):
    """Serves the files of a folder, with redirections below /moved/."""

    def do_GET(self) -> None:
        """Answer, or lead away."""
        if not self.path.startswith("/moved/"):
            super().do_GET()
            return
        self.send_response(301)
        self.send_header("Location", self.path.removeprefix("/moved"))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve_over_https(folder: Path) -> Iterator[tuple[str, Path]]:
    """Serve a folder over HTTPS; return the host and the self-signed certificate."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, *name, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("localhost", 0), partial(Files, directory=str(folder))) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"localhost:{server.server_port}", certificate
        finally:
            server.shutdown()
            serving.join()


def fetch_text(git: Git, uri: str, folder: Path) -> str:
    """Return the text of the module in the commit of an address."""
    address = parse_address(uri)
    git.fetch(address, git.find_commit(address), folder)
    return (folder / "one.py").read_text()


def test_a_branch_a_tag_a_commit_and_the_default_branch_are_found(repository: Repository, tmp_path: Path) -> None:
    first = repository.git("rev-parse", "HEAD~1")
    second = repository.git("rev-parse", "HEAD")
    repository.git("tag", "light", first)
    repository.git("tag", "-a", "-m", "noted", "v1", second)
    repository.push("light", "v1", f"{second}:refs/heads/with/slash", f"{second}:refs/pull/7/head")
    expected = {
        "": first,
        "@HEAD": first,
        "@main": first,
        "@next": second,
        "@with/slash": second,
        "@light": first,
        "@v1": second,
        "@refs/tags/v1": second,
        "@refs/heads/next": second,
        "@refs/pull/7/head": second,
        f"@{second}": second,
    }
    git = Git()
    assert {ref: git.find_commit(parse_address(repository.uri + ref)) for ref in expected} == expected
    assert "first" in fetch_text(git, f"{repository.uri}@main", tmp_path / "a")
    assert "second" in fetch_text(git, f"{repository.uri}@v1", tmp_path / "b")
    assert "first" in fetch_text(git, f"{repository.uri}@{first}", tmp_path / "c")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["one.py"]


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        ("gone", "no branch or tag 'gone'. Check its name"),
        ("ain", "no branch or tag 'ain'"),
        ("heads/main", "no branch or tag 'heads/main'"),
        ("abcdef1", "Write the whole commit, of 40 digits"),
    ],
)
def test_a_missing_ref_is_reported(ref: str, problem: str, repository: Repository) -> None:
    with pytest.raises(ModuleLoadError, match=problem):
        Git().find_commit(parse_address(f"{repository.uri}@{ref}"))


def test_a_name_of_two_commits_is_rejected(repository: Repository) -> None:
    repository.push("HEAD:refs/heads/same", "HEAD:refs/tags/same", "HEAD:refs/heads/both", "HEAD~1:refs/tags/both")
    assert Git().find_commit(parse_address(f"{repository.uri}@same")) == repository.git("rev-parse", "HEAD")
    with pytest.raises(ModuleLoadError, match=r"'both' is a branch and a tag\. Write refs/heads/"):
        Git().find_commit(parse_address(f"{repository.uri}@both"))


def test_an_empty_and_a_missing_repository_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ModuleLoadError, match="the repository is empty"):
        Git().find_commit(parse_address(Repository(tmp_path, "empty").uri))
    with pytest.raises(ModuleLoadError, match="does not appear to be a git repository"):
        Git().find_commit(parse_address(f"git+{(tmp_path / 'gone').as_uri()}"))


def test_a_missing_commit_and_another_object_are_reported(repository: Repository, tmp_path: Path) -> None:
    tree = repository.git("rev-parse", "HEAD^{tree}")
    for number, (commit, output) in enumerate(
        (("0" * 40, "the repository has no commit 0{40}"), (tree, f"{tree} is not a commit"))
    ):
        with pytest.raises(ModuleLoadError, match=output):
            fetch_text(Git(), f"{repository.uri}@{commit}", tmp_path / f"out{number}")


def test_a_server_that_sends_no_single_commits_is_asked_for_all_branches(
    repository: Repository, tmp_path: Path
) -> None:
    first = repository.git("rev-parse", "HEAD~1")
    repository.push("HEAD:refs/heads/main")
    old = Git(replace_git(tmp_path, f'echo "$@" >> {tmp_path}/asked\nexec "$GIT" -c protocol.version=0 "$@"'))
    assert "first" in fetch_text(old, f"{repository.uri}@{first}", tmp_path / "out")
    assert (tmp_path / "asked").read_text().count(" fetch ") == 2


def test_the_settings_of_the_user_and_of_the_folder_are_not_read(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap, sprung = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(0o755)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "post-checkout").write_text(f"#!/bin/sh\ntouch {sprung}\n")
    (tmp_path / "hooks" / "post-checkout").chmod(0o755)
    elsewhere = Repository(tmp_path, "elsewhere")
    elsewhere.commit({"one.py": "elsewhere"})
    settings = (
        f'[filter "trap"]\n\tsmudge = {trap}\n\tclean = {trap}\n[core]\n\thooksPath = {tmp_path}/hooks\n'
        f'\tfsmonitor = {trap}\n[url "{elsewhere.url}"]\n\tinsteadOf = {repository.url}\n'
    )
    (tmp_path / ".gitconfig").write_text(settings)
    repository.commit({".gitattributes": "*.py filter=trap\n"})
    repository.git("init", "-q", str(tmp_path / "here"), folder=tmp_path)
    (tmp_path / "here" / ".git" / "config").write_text(settings)
    monkeypatch.chdir(tmp_path / "here")
    for name, value in {
        "HOME": str(tmp_path),
        "GIT_CONFIG_GLOBAL": str(tmp_path / ".gitconfig"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{elsewhere.url}.insteadOf",
        "GIT_CONFIG_VALUE_0": repository.url,
        "GIT_DIR": str(elsewhere.bare),
        "GIT_SSH_COMMAND": str(trap),
        "GIT_ASKPASS": str(trap),
        "GIT_TEMPLATE_DIR": str(tmp_path),
        "GIT_EXTERNAL_DIFF": str(trap),
    }.items():
        monkeypatch.setenv(name, value)
    assert "Says one thing" in fetch_text(Git(), f"{repository.uri}@main", tmp_path / "out")
    assert not sprung.exists()


def test_git_uses_only_the_scheme_of_the_address_and_does_not_prompt(repository: Repository, tmp_path: Path) -> None:
    environ = replace_git(tmp_path, f'env > {tmp_path}/env\nexec "$GIT" "$@"')
    git = Git({**environ, "SECRET_TOKEN": "x", "GIT_PROXY_COMMAND": "x", "https_proxy": "http://proxy"})
    git.find_commit(parse_address(repository.uri))
    values = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert values["GIT_ALLOW_PROTOCOL"] == "file"
    assert (values["GIT_TERMINAL_PROMPT"], values["GIT_SSH_COMMAND"]) == ("0", "ssh -oBatchMode=yes")
    assert values["https_proxy"] == "http://proxy"
    assert not {"SECRET_TOKEN", "GIT_PROXY_COMMAND", "GIT_DIR"} & set(values)


def test_submodules_are_not_fetched(repository: Repository, tmp_path: Path) -> None:
    inner = Repository(tmp_path, "inner")
    inner.commit({"inside.py": ""})
    repository.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.bare), "part")
    repository.commit({})
    fetch_text(Git(), f"{repository.uri}@main", tmp_path / "out")
    assert list((tmp_path / "out" / "part").iterdir()) == []


def test_missing_git_is_reported() -> None:
    for environ in ({"PATH": "/nowhere"}, {"PATH": ""}):
        with pytest.raises(ModuleLoadError, match=r"need the git program, which is not on the PATH\. Install git"):
            Git(environ)


def test_git_may_be_on_the_path_by_a_relative_name(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_git(tmp_path, 'exec "$GIT" "$@"')
    monkeypatch.chdir(tmp_path)
    assert Git({"PATH": "bin"}).find_commit(parse_address(repository.uri)) == repository.git("rev-parse", "HEAD~1")


def test_a_git_that_cannot_ignore_settings_is_rejected(tmp_path: Path) -> None:
    environ = replace_git(tmp_path, "")
    for output, is_fine in (("git version 2.31.9", False), ("git version 2.32.0.windows.1", True), ("hello", False)):
        (tmp_path / "bin" / "git").write_text(f"#!/bin/sh\necho {output}\n")
        if is_fine:
            Git(environ)
        else:
            with pytest.raises(ModuleLoadError, match=rf"is '{output}', and modules from git need 2\.32 or later"):
                Git(environ)


def test_a_git_that_hangs_is_killed_with_its_children(repository: Repository, tmp_path: Path) -> None:
    with check_pipe(tmp_path / "pipe"):
        git = Git(replace_git(tmp_path, f"sleep 300 > {tmp_path}/pipe &\nsleep 300"), timeout=3)
        with pytest.raises(ModuleLoadError, match=r"git took longer than 3 seconds"):
            git.find_commit(parse_address(repository.uri))


def test_the_last_lines_of_the_errors_of_git_are_reported(repository: Repository, tmp_path: Path) -> None:
    git = Git(replace_git(tmp_path, "for n in 1 2 3 4 5 6; do echo line $n >&2; done; exit 7"))
    with pytest.raises(ModuleLoadError, match=r"main: line 3; line 4; line 5; line 6$"):
        git.find_commit(parse_address(f"{repository.uri}@main"))
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexit 7\n")
    with pytest.raises(ModuleLoadError, match="git exited with 7"):
        git.find_commit(parse_address(repository.uri))


def test_an_interrupt_ends_git_too(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: subprocess.Popen[bytes], *args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with check_pipe(tmp_path / "pipe"):
        git = Git(replace_git(tmp_path, f"sleep 300 > {tmp_path}/pipe &\nsleep 300"))
        monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            git.find_commit(parse_address(repository.uri))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="NOT TESTED: no openssl to make a certificate with")
def test_over_https_certificates_are_checked_and_redirections_not_followed(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("update-server-info", folder=repository.bare)
    with serve_over_https(repository.bare.parent) as (host, certificate):
        uri = f"git+https://{host}/{repository.bare.name}@main"
        with pytest.raises(ModuleLoadError, match="certificate"):
            Git().find_commit(parse_address(uri))
        git = Git({**os.environ, "GIT_SSL_CAINFO": str(certificate)})
        assert "first" in fetch_text(git, uri, tmp_path / "out")
        with pytest.raises(ModuleLoadError, match="unable to"):
            git.find_commit(parse_address(uri.replace(host, f"{host}/moved")))
