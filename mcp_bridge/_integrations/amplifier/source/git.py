"""Parses the addresses of modules in git repositories, and fetches single commits with the git program.

Git runs without any settings, hooks or filters, so neither a repository nor a user's configuration can make it run
other programs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from mcp_bridge._integrations.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge._runtime.platform import system

PREFIX = "git+"
# Git has other schemes, too, and some of them, such as `ext`, run commands.
SCHEMES = ("https", "ssh", "file")
COMMIT = re.compile(r"[0-9a-f]{40}")
# The timeout of one git command, in seconds.
TIMEOUT = 300.0
# The first version that can ignore the settings of the user.
MIN_VERSION = (2, 32)
_HINT = "Write it as git+https://HOST/PATH@REF, with #subdirectory=FOLDER where the module is not at the top"
# The rules of `git check-ref-format`, without characters that have a meaning in refspecs and shells.
_REF = re.compile(r"(?!.*(?:\.\.|//|\.lock$|\.lock/|/$|\.$))[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_USERINFO = re.compile(r"//[^/@]*@")
_SHORT_COMMIT = re.compile(r"[0-9a-f]{7,39}")
_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "USERPROFILE", "APPDATA",
    "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip
"""The environment variables for git."""
# These settings turn off everything that makes git run programs or follow other addresses. Files get exactly the bytes
# of the commit, so that their hash is the same on every machine.
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
# The lines that git adds to many errors.
_BOILERPLATE = ("Please make sure you have the correct access rights", "and the repository exists.")
# The errors of servers that cannot send a single commit.
_NO_SINGLE_COMMIT = ("unadvertised object", "not our ref", "does not support shallow")


@dataclass(frozen=True, slots=True)
class GitAddress:
    """The address of a module in a repository.

    Attributes:
        uri: The address as the plan writes it.
        url: The repository.
        ref: The branch, tag or commit; empty for the default branch.
        subdirectory: The folder of the module; empty for the top of the repository.
    """

    uri: str
    url: str
    ref: str = ""
    subdirectory: str = ""

    @property
    def scheme(self) -> str:
        return self.url.partition(":")[0]

    def is_allowed(self, patterns: Sequence[str]) -> bool:
        """Return whether a pattern matches the URL of the repository. The prefix `git+` of a pattern is optional."""
        return any(fnmatchcase(self.url, pattern.removeprefix(PREFIX)) for pattern in patterns)

    def require_allowed(self, patterns: Sequence[str]) -> None:
        """Raise ModuleNotFoundError, with the line to add, if no pattern of the settings allows the repository."""
        if not self.is_allowed(patterns):
            raise ModuleNotFoundError(
                f"{self.uri} is not allowed. If you trust it, write beside 'plan', or at the top of a file that is a "
                f"plan itself: git: [{self.url!r}]"
            )


def is_git_source(source: object) -> bool:
    return isinstance(source, str) and source.startswith(PREFIX)


def parse_address(uri: str) -> GitAddress:
    """Parse an address. Raises ModuleNotFoundError if it is invalid, or could mean more than one repository."""
    if not uri.isprintable() or " " in uri or "\\" in uri:
        raise ModuleNotFoundError(
            f"{redact_userinfo(uri)!r} has spaces, backslashes or control characters in it. {_HINT}"
        )
    try:
        parts = urlsplit(uri.removeprefix(PREFIX))
        userinfo, _, host = parts.netloc.rpartition("@")
    except ValueError as error:
        raise _build_address_error(uri, f"cannot be read: {error}") from None
    if parts.scheme not in SCHEMES:
        raise _build_address_error(uri, f"has the scheme '{parts.scheme}', which is none of: {', '.join(SCHEMES)}")
    _check_authority(uri, parts.scheme, userinfo, host)
    if parts.query or uri.endswith("?"):
        raise _build_address_error(uri, "has a query")
    path, ref = parts.path, ""
    if "@" in path:
        path, _, ref = path.rpartition("@")
        if not _REF.fullmatch(ref):
            raise _build_address_error(uri, f"has {ref!r} for a branch, tag or commit")
    # A server may decode the path, so `%2e%2e` is as unsafe as `..`.
    segments = set()
    for text in (path, unquote(path)):
        segments.update(text.removeprefix("/").removesuffix("/").split("/"))
    if not path.startswith("/") or segments & {"", ".", ".."}:
        raise _build_address_error(uri, "has no absolute path of a repository, or segments such as '..' in it")
    return GitAddress(uri, f"{parts.scheme}://{parts.netloc}{path}", ref, _parse_subdirectory(uri, parts.fragment))


def redact_userinfo(uri: str) -> str:
    return _USERINFO.sub("//***@", uri)


def _check_authority(uri: str, scheme: str, userinfo: str, host: str) -> None:
    if userinfo and (scheme != "ssh" or ":" in userinfo):
        raise _build_address_error(uri, "has credentials in it. Move them to ~/.netrc, or use ssh with an agent")
    if userinfo and not _USER.fullmatch(userinfo):
        raise _build_address_error(uri, "has an invalid user")
    if scheme == "file" and host:
        raise _build_address_error(uri, "has a host, or its path is not absolute: git+file:///PATH@REF")
    if scheme != "file" and not _HOST.fullmatch(host):
        raise _build_address_error(uri, "has no valid host")


def _parse_subdirectory(uri: str, fragment: str) -> str:
    try:
        parameters = dict(parse_qsl(fragment, keep_blank_values=True, strict_parsing=bool(fragment)))
    except ValueError:
        raise _build_address_error(uri, f"has '#{fragment}'") from None
    subdirectory = parameters.pop("subdirectory", "").strip("/")
    # pip uses this parameter for the name of the package.
    parameters.pop("egg", None)
    if parameters or (subdirectory and not _is_safe_subdirectory(subdirectory)):
        raise _build_address_error(uri, f"has '#{fragment}'")
    return subdirectory


def _is_safe_subdirectory(path: str) -> bool:
    if ":" in path or not path.isprintable():
        return False
    return {"", ".", "..", ".git"}.isdisjoint(path.split("/"))


def _build_address_error(uri: str, problem: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"{redact_userinfo(uri)} {problem}. {_HINT}")


class Git:
    """The git program. Raises ModuleLoadError if it is missing or too old."""

    def __init__(self, environ: Mapping[str, str] | None = None, *, timeout: float = TIMEOUT) -> None:
        self._environ = os.environ if environ is None else environ
        self._timeout = timeout
        program = system.locate_program("git", self._environ.get("PATH", os.defpath))
        if program is None:
            raise ModuleLoadError("modules from git need the git program, which is not on the PATH. Install git")
        # Git runs in another directory, so the path must be absolute.
        self._program = os.path.abspath(program)
        output = self._run_git(["--version"], "", "git")
        version = re.search(r"(\d+)\.(\d+)", output)
        if version is None or tuple(map(int, version.groups())) < MIN_VERSION:
            minimum = ".".join(map(str, MIN_VERSION))
            raise ModuleLoadError(
                f"{program} is '{output.strip()}', and modules from git need {minimum} or later. Update it"
            )

    def find_commit(self, address: GitAddress) -> str:
        """Return the current commit of an address. Raises ModuleLoadError if there is none, or more than one."""
        if COMMIT.fullmatch(address.ref):
            return address.ref
        ref = address.ref or "HEAD"
        if ref == "HEAD" or ref.startswith("refs/"):
            refs = [ref]
        else:
            refs = [f"refs/heads/{ref}", f"refs/tags/{ref}"]
        # An annotated tag is a separate object. The line of its name with ^{} has the commit.
        tagged_commits = [f"{name}^{{}}" for name in refs if name.startswith("refs/tags/")]
        output = self._run(address, "ls-remote", "--quiet", address.url, *refs, *tagged_commits)
        commits_by_ref = {}
        for line in output.splitlines():
            commit, _, name = line.partition("\t")
            commits_by_ref[name] = commit
        commits = set()
        for name in refs:
            if name in commits_by_ref:
                commits.add(commits_by_ref.get(f"{name}^{{}}", commits_by_ref[name]))
        if len(commits) == 1:
            return commits.pop()
        if commits:
            raise _build_git_error(address, f"'{address.ref}' is a branch and a tag. Write refs/heads/… or refs/tags/…")
        if not address.ref:
            raise _build_git_error(address, "the repository is empty")
        hint = "Write the whole commit, of 40 digits" if _SHORT_COMMIT.fullmatch(address.ref) else "Check its name"
        raise _build_git_error(address, f"the repository has no branch or tag '{address.ref}'. {hint}")

    def fetch(self, address: GitAddress, commit: str, folder: Path) -> None:
        """Write the files of a commit to a new folder, and the data of git to `folder.git`.

        Raises ModuleLoadError if git fails or there is no such commit.
        """
        git_dir = folder.with_name(f"{folder.name}.git")
        folder.mkdir()
        self._run(address, "init", "--quiet", "--bare", "--template=", str(git_dir))
        option = f"--git-dir={git_dir}"
        quiet = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        try:
            self._run(address, option, "fetch", *quiet, "--depth=1", address.url, commit)
        except ModuleLoadError as error:
            if not any(reason in str(error) for reason in _NO_SINGLE_COMMIT):
                raise
            self._run(address, option, "fetch", *quiet, address.url, "+refs/heads/*:refs/h/*", "+refs/tags/*:refs/t/*")
        try:
            object_type = self._run(address, option, "cat-file", "-t", commit).strip()
        except ModuleLoadError as error:
            raise _build_git_error(address, f"the repository has no commit {commit}, or no longer has it") from error
        if object_type != "commit":
            raise _build_git_error(address, f"{commit} is not a commit but a {object_type}")
        self._run(address, option, f"--work-tree={folder}", "checkout", "--quiet", "--force", "--detach", commit)

    def _run(self, address: GitAddress, *args: str) -> str:
        """Run a git command for an address, with the settings of `_SETTINGS`. Return its output."""
        arguments = []
        for name, value in _SETTINGS.items():
            arguments += ["-c", f"{name}={value}"]
        return self._run_git([*arguments, *args], address.scheme, address.uri)

    def _run_git(self, args: Sequence[str], scheme: str, subject: str) -> str:
        """Run git and return its output. Raises ModuleLoadError if it fails or takes too long."""
        process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603  # no shell, and every part is checked
            [self._program, *args],
            # If the current directory belonged to a repository, git would read the settings of this repository.
            cwd=Path(os.sep).absolute(),
            env=self._build_environment(scheme),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **system.make_child_options(),
        )
        group = system.ProcessGroup(process.pid)
        try:
            out, err = process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            raise ModuleLoadError(f"{subject}: git took longer than {self._timeout:g} seconds") from None
        finally:
            if process.returncode is None:
                group.kill()
                process.kill()
                process.wait()
            group.close()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        if process.returncode:
            lines = [line.strip() for line in err.decode("utf-8", "replace").splitlines()]
            relevant_lines = [line for line in lines if line and line not in _BOILERPLATE]
            reason = "; ".join(relevant_lines[-4:]) or f"git exited with {process.returncode}"
            raise ModuleLoadError(f"{subject}: {reason}")
        return out.decode("utf-8", "replace")

    def _build_environment(self, scheme: str) -> dict[str, str]:
        """Return environment variables that exclude prompts, the settings of user and machine, and other schemes."""
        variables = {name: self._environ[name] for name in _ENVIRONMENT if name in self._environ}
        return variables | {
            "GIT_ALLOW_PROTOCOL": scheme,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }


def _build_git_error(address: GitAddress, problem: str) -> ModuleLoadError:
    return ModuleLoadError(f"{address.uri}: {problem}")
