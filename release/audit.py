"""Look up known vulnerabilities of the run-time dependencies, as release/lock/image.txt locks them, with pip-audit.

Exits with 1 if there is a vulnerability. If the index has no data about vulnerabilities, prints NOT AUDITED and exits
with 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).parent / "lock" / "image.txt"


def main() -> None:
    """Print a line for each vulnerability, and a line if some packages could not be looked up."""
    options = ("--disable-pip", "--require-hashes", "-r", LOCK, "--format", "json", "--progress-spinner", "off")
    process = subprocess.run(
        [sys.executable, "-m", "pip_audit", *options], check=False, capture_output=True, encoding="utf-8"
    )
    try:
        packages = json.loads(process.stdout)["dependencies"]
    except ValueError:
        reason = process.stderr.strip().splitlines()[-1:] or ["no output"]
        print(f"NOT AUDITED: pip-audit cannot look up vulnerabilities here: {reason[0]}")
        return
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped:
        print(f"NOT AUDITED: the index here has no data about {len(skipped)} of {len(packages)} packages")
    problems = [
        f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in"
        f" {', '.join(vulnerability['fix_versions']) or 'no version'}"
        for package in packages
        for vulnerability in package.get("vulns", ())
    ]
    if problems:
        raise SystemExit("\n".join(problems))
    print(f"{len(packages) - len(skipped)} packages without known vulnerabilities")


if __name__ == "__main__":
    main()
