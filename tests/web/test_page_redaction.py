"""The page redacts matches of the policy `redact` and the values of secrets, also in questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from tests.kits.web.web_kit import serve_page

TOOLS = '''
from mcp_bridge import tool


@tool
def send(to: str, password: str) -> dict[str, str]:
    """Send a mail."""
    return {"sent": to}
'''
MARK = "[redacted email]"


async def test_arguments_and_questions_are_hidden_although_only_results_are_redacted(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    policy = [{"redact": {"patterns": "email"}}, {"approval": {}}]
    file = tmp_path / "bridge.json"
    file.write_text(json.dumps({"sources": [{"type": "python", "path": "tools.py"}], "policy": policy}))
    settings = load(file, {})
    results: list[Any] = []

    async with serve_page(build_from_settings(settings), settings=settings) as server, server.read() as page:
        async with page.follow(), anyio.create_task_group() as tasks:

            async def send() -> None:
                results.append(await page.call_tool("send", to="ann@example.com", password="hunter22"))

            tasks.start_soon(send)
            question = await page.wait_for("question")
            await page.post(f"questions/{question['id']}", choice="once")
            call = await page.wait_for("call", lambda call: call["state"] == "ok")
        text = (await page.http.get("/page/state")).text
    assert question["arguments"] == call["arguments"] == {"to": MARK, "password": "[secret]"}
    assert call["result"] == results[0]["structuredContent"] == {"sent": MARK}
    assert [layer["name"] for layer in call["layers"]][1:3] == ["recheck redact", "redact"]
    assert "approval" in [layer["name"] for layer in call["layers"]]
    assert "ann@example.com" not in text
    assert "hunter22" not in text
