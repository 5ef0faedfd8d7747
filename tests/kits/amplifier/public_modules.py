"""Public Amplifier modules, unmodified and pinned, through the official client in both eras.

Not a part of the tests: it fetches from the network. `make modules`, or with clones of the repositories in a folder
`python -m tests.kits.amplifier.public_modules --clones FOLDER` (FOLDER/NAME, or FOLDER/NAME.git). Prints what it has
seen, and ends with 1 where that is not what it should be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

PINS = {
    "tool-bash": ("microsoft", "d8cc410d7a70842c17581aa4fd42a06ec7fac8c1"),
    "tool-filesystem": ("microsoft", "355fa417ca37ea6475a2d7a4aea6ff037f800eea"),
    "tool-todo": ("microsoft", "483c5a878bbbe2d6fd33ab81a54c9bd6a28be4a9"),
    "hooks-approval": ("microsoft", "4ee093eafd2d60ab10692a22363e86c7b25d02ce"),
    "hooks-redaction": ("microsoft", "ead35f44f076eab5ee2d81a8569ec2db0ac7519b"),
    "hook-shell": ("microsoft", "f9ebb16a547461138e5d4b1549aee03bc6841e23"),
    "hooks-logging": ("anokye-labs", "0d7766cee5a4d8aee56f1ebbaf32b23f70f89bc6"),
}
"""Modules by name: the owner of the repository, and the commit."""
CONFIG: dict[str, dict[str, Any]] = {
    "hooks-approval": {
        "rules": [{"pattern": text, "action": "auto_approve"} for text in ("echo fine", "pwd")],
        "audit": {"enabled": False},
    },
    "hooks-redaction": {"skip_events": ["tool:pre"]},
    "hooks-logging": {"session_log_template": "{home}/log-{session_id}.jsonl"},
}
SHELL_HOOKS = {
    "hooks": {
        "PreToolUse": [
            {"matcher": "edit_file", "hooks": [{"type": "command", "command": "echo 'no edits' >&2; exit 2"}]}
        ]
    }
}
"""What hook-shell runs before a call: a program that denies it, and does not read about it."""
DENIALS = 100
STATELESS = "2026-07-28"


def settings(folder: Path, clones: Path | None) -> Path:
    """A settings file whose plan has all of them."""
    plan: dict[str, list[dict[str, Any]]] = {"tools": [], "hooks": []}
    for name, (owner, commit) in PINS.items():
        repository = f"amplifier-module-{name}"
        uri = f"git+https://github.com/{owner}/{repository}@{commit}"
        if clones is not None:
            uri = f"git+file://{clone(clones, owner, repository)}@{commit}"
        config = json.loads(json.dumps(CONFIG.get(name, {})).replace("{home}", str(folder)))
        kind = "tools" if name.startswith("tool") else "hooks"
        plan[kind].append({"module": name, "source": uri, "config": config})
    source = {"type": "amplifier", "git": ["git+*"], "modules": str(folder / "modules"), "plan": plan}
    hooks = folder / ".amplifier" / "hooks" / "hooks.json"
    hooks.parent.mkdir(parents=True)
    hooks.write_text(json.dumps(SHELL_HOOKS))
    path = folder / "bridge.json"
    path.write_text(json.dumps({"sources": [source]}))
    return path


def clone(folder: Path, owner: str, repository: str) -> Path:
    """A clone below a folder, by one of the names that it may have there."""
    names = (repository, f"{repository}.git", f"{owner}+{repository}/repo")
    return next(folder / name for name in names if (folder / name).exists()).resolve()


class Seen:
    """What is seen, and whether it is what it should be."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, what: str, found: Any, good: Callable[[Any], bool]) -> None:
        """Print one line."""
        ok = good(found)
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what}: {str(found)[:160]!r}")


async def visit(path: Path, mode: str, seen: Seen) -> None:
    """One client of one server, and a person at it who says yes to the first question and no to all others."""
    asked: list[str] = []

    async def person(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        schema = params.requested_schema["properties"]
        (key,) = schema
        options = schema[key].get("enum") or [one["const"] for one in schema[key].get("oneOf", [])]
        return types.ElicitResult(action="accept", content={key: options[0] if len(asked) == 1 else options[-1]})

    server = stdio_client(server_parameters(path, folder="/"))  # as Claude Desktop starts it
    async with Client(server, mode=mode, elicitation_callback=person) as client:
        names = sorted(tool.name for tool in (await client.list_tools()).tools)
        seen.check("tools", names, lambda found: {"bash", "read_file", "write_file", "edit_file", "todo"} <= set(found))

        async def call(tool: str, **arguments: Any) -> types.CallToolResult:
            return await client.call_tool(tool, arguments)

        fails = await call("bash", command="echo out; exit 3")
        seen.check("bash, approved, that fails", said(fails), lambda text: "out" in text and "3" in text)
        seen.check("the question", asked[:1], lambda found: "echo out; exit 3" in str(found))
        declined = said(await call("bash", command="rm -rf /tmp/nothing"))
        seen.check("bash, declined", declined, lambda text: "declined" in text)
        seen.check("bash, by rule", said(await call("bash", command="echo fine")), lambda text: "fine" in text)
        (path.parent / "card.txt").write_text("write to ada@example.com with AKIAIOSFODNN7EXAMPLE\n")
        read = said(await call("read_file", file_path=str(path.parent / "card.txt")))
        seen.check("read_file, redacted", read, lambda text: "REDACTED" in text and "AKIAIOSF" not in text)
        await call("write_file", file_path="made.txt", content="here")
        made = path.parent / "made.txt"
        seen.check("write_file, from /", made.exists() and made.read_text(), lambda text: text == "here")
        with tempfile.TemporaryDirectory() as other:
            outside = said(await call("write_file", file_path=f"{other}/made.txt", content="there"))
            seen.check("write_file, outside", outside, lambda text: "denied" in text.lower())
            seen.check("files outside", os.listdir(other), lambda found: not found)
        seen.check("bash, from /", said(await call("bash", command="pwd")), lambda text: str(path.parent) in text)
        todo = await call("todo", action="create", todos=[{"content": "a", "activeForm": "a", "status": "pending"}])
        seen.check("todo", said(todo), lambda text: not todo.is_error and "pending" in text)
        seen.check("questions", len(asked), lambda found: found >= 2)


async def try_denied_edits(path: Path, mode: str, seen: Seen) -> None:
    """Calls that hook-shell denies, many at once. It reads its hooks from the folder that the server is started in."""
    card = path.parent / "card.txt"
    card.write_text("write")
    edit = {"file_path": str(card), "old_string": "write", "new_string": "wrote"}
    edits: list[str] = []
    async with Client(stdio_client(server_parameters(path, folder=path.parent)), mode=mode) as client:

        async def edit_once() -> None:
            edits.append(said(await client.call_tool("edit_file", edit)))

        async with anyio.create_task_group() as tasks:
            for _ in range(DENIALS):
                tasks.start_soon(edit_once)
    allowed = [text for text in edits if "no edits" not in text]
    seen.check(f"edit_file, allowed in {len(edits)} calls that hook-shell denies", allowed, lambda found: not found)
    seen.check("the file", card.read_text(), lambda text: text == "write")


def validate_modules(folder: Path, seen: Seen) -> None:
    """Every module that was fetched meets the requirements of its contract."""
    for package in sorted(folder.glob("modules/**/amplifier_module_*/__init__.py")):
        command = [sys.executable, "-m", "mcp_bridge", "module", "validate", str(package.parents[1]), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        failed = json.loads(done.stdout)["failed"] if done.stdout else done.stderr
        seen.check(f"module validate {package.parent.name}", failed, lambda found: not found)


def server_parameters(path: Path, *, folder: Path | str) -> StdioServerParameters:
    """The server of a settings file, started in a folder."""
    command = ["-m", "mcp_bridge", "serve", str(path)]
    return StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ), cwd=folder)


def said(result: types.CallToolResult) -> str:
    """The texts of a result."""
    return " ".join(block.text for block in result.content if isinstance(block, types.TextContent))


def main() -> None:
    """Lock, fetch, serve and visit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clones", type=Path, help="a folder with clones of the repositories")
    clones = parser.parse_args().clones
    seen = Seen()
    with tempfile.TemporaryDirectory() as folder:
        path = settings(Path(folder).resolve(), clones)
        subprocess.run([sys.executable, "-m", "mcp_bridge", "module", "lock", str(path)], check=True)
        validate_modules(path.parent, seen)
        for mode in ("legacy", STATELESS):
            print(f"== {mode}")
            anyio.run(visit, path, mode, seen)
            anyio.run(try_denied_edits, path, mode, seen)
        logged = [line for log in Path(folder).glob("log-*.jsonl") for line in log.read_text().splitlines()]
        events = sorted({json.loads(line).get("event", "") for line in logged})
        seen.check("hooks-logging wrote", events, lambda found: {"tool:pre", "tool:post"} <= set(found))
    raise SystemExit(1 if seen.failed else 0)


if __name__ == "__main__":
    main()
