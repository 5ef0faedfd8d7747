"""Fetching one commit of a repository, with the git program and without anything that it could be made to run."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from mcp_bridge.amplifier.errors import ModuleLoadError
from mcp_bridge.amplifier.source.addresses import COMMIT, Address

PATIENCE = 300.0
"""Seconds that one step of git may take."""
OLDEST = (2, 32)
"""The first git that can be kept from reading the settings of the user."""
_SHORTENED = re.compile(r"[0-9a-f]{7,39}")
_KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "USERPROFILE", "APPDATA"),
    *("SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)
"""What git gets of the environment."""
_SETTINGS = {
    "advice.detachedHead": "false",
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.longpaths": "true",
    "core.symlinks": "true",
    "credential.helper": "",
    "gc.auto": "0",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "100",
    "http.lowSpeedTime": "60",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
}
_SAID_ALWAYS = ("Please make sure you have the correct access rights", "and the repository exists.")
_NOT_BY_ITSELF = ("unadvertised object", "not our ref", "does not support shallow")
"""What is said of servers that give no single commit, but only the ends of branches, or files."""


class Git:
    """The git program. Raises ModuleLoadError where there is none, or one that would read other people's settings."""

    def __init__(self, environ: Mapping[str, str] | None = None, *, patience: float = PATIENCE) -> None:
        self._environ = os.environ if environ is None else environ
        self._patience = patience
        found = shutil.which("git", path=self._environ.get("PATH", os.defpath))
        if found is None:
            raise ModuleLoadError("modules from git need the git program, which is not on the PATH. Install git")
        self._program = os.path.abspath(found)  # it is run in another folder than this
        said = self._answer(["--version"], "", "git")
        version = re.search(r"(\d+)\.(\d+)", said)
        if version is None or tuple(map(int, version.groups())) < OLDEST:
            wanted = ".".join(map(str, OLDEST))
            raise ModuleLoadError(
                f"{found} is '{said.strip()}', and modules from git need {wanted} or later. Update it"
            )

    def commit_of(self, address: Address) -> str:
        """The commit that an address means now. Raises ModuleLoadError where there is none, or more than one."""
        if COMMIT.fullmatch(address.ref):
            return address.ref
        wanted = _names(address.ref)
        listed = self._run(address, "ls-remote", "--quiet", address.url, *wanted)
        found = {name: commit for commit, _, name in (line.partition("\t") for line in listed.splitlines())}
        # An annotated tag is an object of its own; the line with ^{} has the commit.
        meant = {found.get(f"{name}^{{}}", found[name]) for name in wanted if name in found}
        if len(meant) == 1:
            return meant.pop()
        if meant:
            raise _failed(address, f"'{address.ref}' is a branch and a tag. Write refs/heads/… or refs/tags/…")
        if not address.ref:
            raise _failed(address, "the repository is empty")
        hint = "Write the whole commit, of 40 digits" if _SHORTENED.fullmatch(address.ref) else "Check its name"
        raise _failed(address, f"the repository has no branch or tag '{address.ref}'. {hint}")

    def fetch(self, address: Address, commit: str, folder: Path) -> None:
        """Put the files of a commit into a new folder; git keeps its own beside it, at `folder.git`.

        Raises ModuleLoadError where that cannot be done.
        """
        own = folder.with_name(f"{folder.name}.git")
        folder.mkdir()
        self._run(address, "init", "--quiet", "--bare", "--template=", str(own))
        where = f"--git-dir={own}"
        quiet = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        try:
            self._run(address, where, "fetch", *quiet, "--depth=1", address.url, commit)
        except ModuleLoadError as error:
            if not any(said in str(error) for said in _NOT_BY_ITSELF):
                raise
            self._run(address, where, "fetch", *quiet, address.url, "+refs/heads/*:refs/h/*", "+refs/tags/*:refs/t/*")
        try:
            kind = self._run(address, where, "cat-file", "-t", commit).strip()
        except ModuleLoadError as error:
            raise _failed(address, f"the repository has no commit {commit}, or none any more") from error
        if kind != "commit":
            raise _failed(address, f"{commit} is no commit but a {kind}")
        self._run(address, where, f"--work-tree={folder}", "checkout", "--quiet", "--force", "--detach", commit)

    def _run(self, address: Address, *args: str) -> str:
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        return self._answer([*settings, *args], address.scheme, address.uri)

    def _answer(self, args: Sequence[str], scheme: str, about: str) -> str:
        """What git says. Raises ModuleLoadError where it fails, or takes too long."""
        code, out, err = _Running([self._program, *args], self._environment(scheme)).finished(self._patience)
        if code is None:
            raise ModuleLoadError(f"{about}: git took longer than {self._patience:g} seconds")
        if code:
            told = [line.strip() for line in err.splitlines() if line.strip() and line.strip() not in _SAID_ALWAYS]
            raise ModuleLoadError(f"{about}: {'; '.join(told[-4:]) or f'git ended with {code}'}")
        return out

    def _environment(self, scheme: str) -> dict[str, str]:
        """No prompts, no settings of the user or the machine, no other way to reach anything than this one."""
        kept = {name: self._environ[name] for name in _KEPT if name in self._environ}
        return kept | {
            "GIT_ALLOW_PROTOCOL": scheme,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }


class _Running:
    """A program in a session of its own, which ends with all that it has started."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # no shell, and every part of it is checked
            command,
            cwd=Path(os.sep).absolute(),  # nowhere near a repository whose settings might be read
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def finished(self, patience: float) -> tuple[int | None, str, str]:
        """Its exit code and what it said; None for the code where it had to be ended."""
        try:
            out, err = self._process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            return None, "", ""
        finally:
            self._end()
        return self._process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def _end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _names(ref: str) -> list[str]:
    """What a repository may have under a name."""
    if not ref:
        return ["HEAD"]
    full = [ref] if ref.startswith("refs/") or ref == "HEAD" else [f"refs/heads/{ref}", f"refs/tags/{ref}"]
    return [*full, *(f"{name}^{{}}" for name in full if name.startswith("refs/tags/"))]


def _failed(address: Address, problem: str) -> ModuleLoadError:
    return ModuleLoadError(f"{address.uri}: {problem}")
