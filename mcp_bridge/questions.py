"""The questions that a call can ask its client, and their answers. docs/questions.md describes them."""

from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.question import Answer, Form, Link, Root, Roots, Sampled, Sampling

__all__ = ["Answer", "Form", "Link", "NeedsInput", "Root", "Roots", "Sampled", "Sampling"]
