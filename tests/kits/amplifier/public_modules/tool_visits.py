"""Checks calls, approvals, denials, redaction and logs of a plan with the public tools and hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import stdio_client

from tests.kits.amplifier.public_modules.checks import MODES, CommandUser, Report, get_server_parameters, get_text
from tests.kits.amplifier.public_modules.plans import PINS, Repositories, build_modules

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
"""The settings of hook-shell: before edit_file, it runs a program that denies the call without reading its input."""
DENIALS = 100
LOOP_RULES = {
    "a_history_in_the_format_of_the_contract_is_continued",
    "only_one_provider_is_used_and_default_provider_selects_it",
    "prompt_submit_modify_changes_the_prompt",
    "tool_pre_inject_context_reaches_the_model_and_the_call_runs",
    "tool_pre_modify_changes_the_arguments",
}
"""The rules that both public loops break."""
KNOWN_FAILURES = {
    "loop_basic": {*LOOP_RULES, "a_call_without_arguments_runs", "max_iterations_stops_a_model_that_never_stops"},
    "loop_streaming": {*LOOP_RULES, "a_call_that_fails_emits_tool_error", "events_come_in_order_with_their_data"},
    "context_simple": {"a_message_without_a_role_raises_value_error_and_is_not_stored", "compaction_emits_its_events"},
    "hooks_logging": {"its_cleanups_unregister_the_handlers"},
    "hooks_redaction": {"its_cleanups_unregister_the_handlers"},
    "provider_mock": {
        "get_info_describes_the_provider",
        "get_info_returns_a_provider_info_of_amplifier_core",
        "it_has_the_members_of_the_contract",
        "the_window_in_its_defaults_leaves_room_for_a_request",
    },
}
"""The rules of the contract suites that modules break (table in docs/module-tests.md). Agents can use them anyway."""
# The compaction of context-simple is slow.
SECONDS = "120"


def visit_tools(repositories: Repositories, checks: Report) -> None:
    """Serve a plan with every tool and hook, and visit it in both eras."""
    path = write_settings(repositories)
    validate_modules(repositories.folder, checks)
    for mode in MODES:
        print(f"== {mode}")
        anyio.run(visit, path, mode, checks)
        anyio.run(try_denied_edits, path, mode, checks)
    lines = [line for log in path.parent.glob("log-*.jsonl") for line in log.read_text().splitlines()]
    events = sorted({json.loads(line).get("event", "") for line in lines})
    checks.check("hooks-logging wrote", events, lambda names: {"tool:pre", "tool:post"} <= set(names))


def write_settings(repositories: Repositories) -> Path:
    """Write a settings file with all tools and hooks."""
    folder = repositories.folder / "tools"
    config = json.loads(json.dumps(CONFIG).replace("{home}", str(folder)))
    names = {section: [name for name in PINS if name.startswith(section)] for section in ("tool", "hook")}
    plan = {f"{section}s": build_modules(repositories, names[section], config) for section in names}
    hooks = folder / ".amplifier" / "hooks" / "hooks.json"
    hooks.parent.mkdir(parents=True)
    hooks.write_text(json.dumps(SHELL_HOOKS))
    return repositories.write_plan("tools", plan)


async def visit(path: Path, mode: str, checks: Report) -> None:
    """Visit a server with one client. Its user allows one command."""
    user = CommandUser("echo out; exit 3")
    questions = user.asked
    # Claude Desktop starts servers in this folder.
    server = stdio_client(get_server_parameters(path, folder="/"))
    async with Client(server, mode=mode, elicitation_callback=user) as client:
        names = sorted(tool.name for tool in (await client.list_tools()).tools)
        checks.check(
            "tools", names, lambda value: {"bash", "read_file", "write_file", "edit_file", "todo"} <= set(value)
        )

        async def call(tool: str, **arguments: Any) -> types.CallToolResult:
            return await client.call_tool(tool, arguments)

        fails = await call("bash", command="echo out; exit 3")
        checks.check("bash, approved, that fails", get_text(fails), lambda text: "out" in text and "3" in text)
        checks.check("the question", questions[:1], lambda value: "echo out; exit 3" in str(value))
        refusal = get_text(await call("bash", command="rm -rf /tmp/nothing"))
        checks.check("bash, declined", refusal, lambda text: "declined" in text)
        checks.check("bash, by rule", get_text(await call("bash", command="echo fine")), lambda text: "fine" in text)
        (path.parent / "card.txt").write_text("write to ada@example.com with AKIAIOSFODNN7EXAMPLE\n")
        read = get_text(await call("read_file", file_path=str(path.parent / "card.txt")))
        checks.check("read_file, redacted", read, lambda text: "REDACTED" in text and "AKIAIOSF" not in text)
        await call("write_file", file_path="made.txt", content="here")
        file = path.parent / "made.txt"
        checks.check("write_file, from /", file.exists() and file.read_text(), lambda text: text == "here")
        with tempfile.TemporaryDirectory() as folder:
            outside = get_text(await call("write_file", file_path=f"{folder}/made.txt", content="there"))
            checks.check("write_file, outside", outside, lambda text: "denied" in text.lower())
            checks.check("files outside", os.listdir(folder), lambda value: not value)
        checks.check("bash, from /", get_text(await call("bash", command="pwd")), lambda text: str(path.parent) in text)
        todo = await call("todo", action="create", todos=[{"content": "a", "activeForm": "a", "status": "pending"}])
        checks.check("todo", get_text(todo), lambda text: not todo.is_error and "pending" in text)
        checks.check("questions", len(questions), lambda value: value >= 2)


async def try_denied_edits(path: Path, mode: str, checks: Report) -> None:
    """Check concurrent calls with denials of hook-shell. It reads its hooks from the folder of the server."""
    card = path.parent / "card.txt"
    card.write_text("write")
    edit = {"file_path": str(card), "old_string": "write", "new_string": "wrote"}
    edits: list[str] = []
    async with Client(stdio_client(get_server_parameters(path, folder=path.parent)), mode=mode) as client:

        async def edit_once() -> None:
            edits.append(get_text(await client.call_tool("edit_file", edit)))

        async with anyio.create_task_group() as tasks:
            for _ in range(DENIALS):
                tasks.start_soon(edit_once)
    allowed = [text for text in edits if "no edits" not in text]
    checks.check(f"edit_file, allowed in {len(edits)} calls that hook-shell denies", allowed, lambda value: not value)
    checks.check("the file", card.read_text(), lambda text: text == "write")


def validate_modules(folder: Path, checks: Report) -> None:
    """Check every fetched module against the rules of its contract, except the known failures."""
    for package in sorted(folder.glob("modules/**/amplifier_module_*/__init__.py")):
        path = str(package.parents[1])
        command = [sys.executable, "-m", "mcp_bridge", "module", "validate", path, "--json", "--timeout", SECONDS]
        if "provider" in package.parent.name:
            command += ["--config", json.dumps({"api_key": "sk-sample"})]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        failures = json.loads(process.stdout)["failed"] if process.stdout else [process.stderr]
        known_failures = sorted(KNOWN_FAILURES.get(package.parent.name.removeprefix("amplifier_module_"), ()))
        checks.check(
            f"module validate {package.parent.name}",
            sorted(failures),
            lambda found, known_failures=known_failures: found == known_failures,
        )
