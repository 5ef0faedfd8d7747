"""Build everything that a release publishes into dist/, and prove that the same commit gives the same bytes.

It runs in the environment of release/lock/tools.txt: `make release`.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from gzip import GzipFile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
RELEASE = ROOT / "release"
DIST = ROOT / "dist"
WORK = ROOT / "build" / "release"
CLEAN = WORK / "environment"
"""An environment with only the wheel and its locked dependencies."""
CLEAN_PYTHON = CLEAN / "bin" / "python"
ALLOWED_LICENSES = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Zlib"),
        *("Apache Software License", "BSD License", "ISC License (ISCL)", "MIT License"),
        *("Mozilla Public License 2.0 (MPL 2.0)", "Python Software Foundation License"),
    )
)
"""The licences that run-time dependencies may have: identifiers of SPDX, and the names of classifiers."""
COMPLETIONS = {
    "bash": "mcp-bridge.bash",
    "zsh": "_mcp-bridge",
    "fish": "mcp-bridge.fish",
    "powershell": "mcp-bridge.ps1",
}


def run(*words: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Run a program and return its output. Exits with the program's output if it fails."""
    process = subprocess.run(
        words, check=False, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, encoding="utf-8"
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{process.stdout}{process.stderr}")
    return process.stdout


def run_tool(module: str, *words: str | Path, cwd: Path = ROOT) -> str:
    """Run a module of this environment."""
    # With -P, the folder `build` of the repository does not hide the package `build`.
    return run(sys.executable, "-P", "-m", module, *words, cwd=cwd)


def read_commit_time() -> str:
    """Return the time of the last commit in seconds, or SOURCE_DATE_EPOCH if it is set."""
    return os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct").strip()


def build_distributions() -> Path:
    """Build the source distribution and the wheel into dist/. Return the path of the wheel.

    The first wheel is built from the files of the last commit, and the second from the source distribution of this
    folder. Exits if the two builds differ: then a file is not committed, or the build is not reproducible.
    """
    export, first, second = WORK / "commit", WORK / "first", WORK / "second"
    export.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as commit:
        commit.extractall(export, filter="data")
    run_tool("build", "--no-isolation", "--sdist", "--wheel", "--outdir", first, export)
    run_tool("build", "--no-isolation", "--outdir", second, ROOT)
    names = sorted(path.name for path in first.iterdir())
    if names != sorted(path.name for path in second.iterdir()):
        raise SystemExit("The two builds have different versions: commit mcp_bridge/_version.py")
    for name in names:
        if (first / name).read_bytes() != (second / name).read_bytes():
            raise SystemExit(
                f"The two builds of {name} differ. Commit all files (git status), and compare"
                f" {first / name} and {second / name}"
            )
        shutil.copy(second / name, DIST)
    return next(DIST.glob("*.whl"))


def make_clean_environment(version: str) -> None:
    """Install the wheel with its locked dependencies, each with the expected hash, and without pip."""
    run_tool("venv", "--without-pip", CLEAN)
    pip = ("pip", "--python", CLEAN_PYTHON, "--quiet", "--disable-pip-version-check")
    run_tool(*pip, "install", "--no-deps", "--require-hashes", "-r", RELEASE / "lock" / "core.txt")
    # If pip got the path of the wheel, it would record this path, and the bill of materials would contain it.
    run_tool(*pip, "install", "--no-deps", "--no-index", "--find-links", DIST, f"mcp-tool-bridge=={version}")
    run_tool(*pip, "check")


def write_bill_of_materials(version: str) -> None:
    """Write the packages of the clean environment as CycloneDX, without random numbers and times."""
    # The tool cannot read a dynamic version, because it does not run the build backend.
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    static_project = WORK / "pyproject.toml"
    static_project.write_text(project.replace('dynamic = ["version"]', f'version = "{version}"'), encoding="utf-8")
    run_tool(
        *("cyclonedx_py", "environment", "--output-reproducible", "--pyproject", static_project),
        *("--mc-type", "application", "--output-format", "JSON"),
        *("--output-file", DIST / "mcp-tool-bridge.cdx.json", CLEAN_PYTHON),
    )


def find_forbidden_licenses(packages: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a line for each package with a licence that is unknown or not allowed.

    All licences of an expression such as `MPL-2.0 AND (Apache-2.0 OR MIT)` must be allowed, also those after OR.
    """
    problems = []
    for package in packages:
        license_text = package["License"]
        names = {license_text}
        if license_text not in ALLOWED_LICENSES:
            names = {name.strip("() ") for name in re.split(r" AND | OR | WITH |; ", license_text)}
        if not names <= ALLOWED_LICENSES:
            problems.append(f"{package['Name']} {package['Version']}: {license_text}")
    return problems


def write_licenses() -> None:
    """Write the licences of all dependencies. Exits if one is not allowed."""
    options = ("--python", CLEAN_PYTHON, "--from", "mixed", "--ignore-packages", "mcp-tool-bridge")
    problems = find_forbidden_licenses(json.loads(run_tool("piplicenses", *options, "--format", "json")))
    if problems:
        raise SystemExit("\n".join(["Licences that release/build.py does not allow:", *problems]))
    text = run_tool("piplicenses", *options, "--format", "plain-vertical", "--with-license-file", "--no-license-path")
    (DIST / "THIRD-PARTY-LICENSES.txt").write_text(text, encoding="utf-8")


def write_command_files() -> None:
    """Write the completions of shells, the manual page and the JSON Schema of the settings, with the built wheel."""
    command = CLEAN / "bin" / "mcp-bridge"
    for shell, name in COMPLETIONS.items():
        (DIST / name).write_text(run(command, "completion", shell), encoding="utf-8")
    (DIST / "mcp-bridge.1").write_text(run(CLEAN_PYTHON, RELEASE / "manual.py"), encoding="utf-8")
    (DIST / "settings.schema.json").write_text(run(command, "schema"), encoding="utf-8")


def write_image_files(version: str) -> None:
    """Write what `docker build dist` needs in addition to the wheel."""
    shutil.copy(RELEASE / "lock" / "image.txt", DIST / "requirements.txt")
    text = (RELEASE / "Dockerfile").read_text(encoding="utf-8")
    (DIST / "Dockerfile").write_text(text.replace("ARG VERSION\n", f"ARG VERSION={version}\n"), encoding="utf-8")


def pack_chart(time: int) -> None:
    """Pack the Helm chart. The same files give the same bytes, which `helm package` does not promise."""
    chart = ROOT / "config" / "deploy" / "chart"
    version = re.search(r"^version: (\S+)$", (chart / "Chart.yaml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    with (
        (DIST / f"mcp-tool-bridge-{version}.tgz").open("wb") as file,
        GzipFile("", "wb", fileobj=file, mtime=time) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(chart.rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                entry = tarfile.TarInfo(f"mcp-tool-bridge/{path.relative_to(chart).as_posix()}")
                entry.size, entry.mtime = len(content), time
                archive.addfile(entry, io.BytesIO(content))


def write_checksums() -> None:
    """Write SHA256SUMS, which `sha256sum --check` reads."""
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Build the release."""
    time = read_commit_time()
    os.environ["SOURCE_DATE_EPOCH"] = time
    for folder in (DIST, WORK):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    version = build_distributions().name.split("-")[1]
    make_clean_environment(version)
    run(sys.executable, RELEASE / "smoke.py", CLEAN)
    write_bill_of_materials(version)
    write_licenses()
    write_command_files()
    write_image_files(version)
    pack_chart(int(time))
    write_checksums()
    print(json.dumps(sorted(path.name for path in DIST.iterdir()), indent=2))


if __name__ == "__main__":
    main()
