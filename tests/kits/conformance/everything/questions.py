"""The questions of the asking tools and of the asking prompt."""

from __future__ import annotations

import json
from typing import Any

from mcp_bridge import Answer, Form
from mcp_bridge.questions import Roots, Sampling


def fields(**properties: Any) -> dict[str, Any]:
    """Return the schema of a form with these fields, all of them required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT = {"type": "string"}
USER = fields(
    username={**TEXT, "description": "User's response"}, email={**TEXT, "description": "User's email address"}
)
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}


def titled(*names: str) -> list[dict[str, str]]:
    """Return choices with different titles and values."""
    return [{"const": f"value{number}", "title": name} for number, name in enumerate(names, 1)]


OPTIONS = ["option1", "option2", "option3"]
CHOICES = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": titled("First Option", "Second Option", "Third Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": titled("First Choice", "Second Choice", "Third Choice")},
        },
    },
    "required": [],
}
"""All forms of choices in a form."""

NAME = Form("What is your name?", fields(name=TEXT))
CAPITAL = Sampling("What is the capital of France?", 100)
CONFIRM = Form("Please confirm", fields(ok={"type": "boolean"}))
STEP_1 = Form("Step 1: What is your name?", fields(name=TEXT))
STEP_2 = Form("Step 2: What is your favorite color?", fields(color=TEXT))
CONTEXT = Form("What context should the prompt use?", fields(context=TEXT))
SEVERAL = {
    "user_name": NAME,
    "greeting": Sampling("Generate a greeting", 50),
    "client_roots": Roots(),
}


def supported(capabilities: Any) -> dict[str, Form | Sampling | Roots]:
    """Return the questions of `SEVERAL` for a client with these capabilities."""
    needed = {"user_name": "elicitation", "greeting": "sampling", "client_roots": "roots"}
    return {key: question for key, question in SEVERAL.items() if needed[key] in capabilities}


def describe(answer: Answer) -> str:
    """Return an answer as text."""
    return f"action={answer.action}, content={json.dumps(dict(answer.content))}"
