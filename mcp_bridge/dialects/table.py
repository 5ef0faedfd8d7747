"""What each client accepts: one table in which every entry names its source (a thread, a page, a file).

Collected in November 2026. Clients change: remove what no longer holds, and add only what has a source.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bridge.dialects.profile import (
    Fact,
    NameCharacters,
    NameLength,
    NoImages,
    NoQuestions,
    Profile,
    PropertiesRequired,
    ResultSize,
    StringArguments,
    StructuredOnly,
    TextEnumsOnly,
    ToolCount,
    UnsupportedKeywords,
)

_ROOT = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else")
_PLAIN = "[A-Za-z0-9_-]+"


def _describe_strings(source: str) -> Fact:
    happens = "arguments that are objects or lists may arrive as JSON in a string, and are then rejected"
    return StringArguments(level="note", happens=happens, source=source)


_CLAUDE_DESKTOP = (
    NameLength(
        most=64,
        level="error",
        happens="every message fails while the tool is there",
        source="anthropics/claude-code#34960",
    ),
    NoQuestions(level="note", happens="it cannot ask the user", source="anthropics/claude-code#96043"),
    NoImages(
        level="note",
        happens="the model sees an image in a result only in its next turn",
        source="anthropics/claude-ai-mcp#643",
    ),
    _describe_strings("anthropics/claude-code#59227"),
)
_CLAUDE_CODE = (
    NameLength(
        most=64,
        prefix="mcp__{server}__",
        level="error",
        happens="a call of the tool ends the conversation",
        source="mims-harvard/ToolUniverse#65, anthropics/claude-code#19882",
    ),
    UnsupportedKeywords(
        words=_ROOT,
        at="root",
        level="error",
        happens="the tool is silently left out",
        source="anthropics/claude-code#95504",
    ),
    ResultSize(
        most=100_000,  # 25,000 tokens, at about four characters each
        level="note",
        happens="longer results are truncated, or kept in a file (MAX_MCP_OUTPUT_TOKENS)",
        source="code.claude.com/docs/en/mcp, anthropics/claude-code#70280",
    ),
    _describe_strings("anthropics/claude-code#59227"),
)
_VSCODE = (
    NameCharacters(
        pattern=_PLAIN, level="warning", happens="it warns about the name", source="microsoft/vscode#308463"
    ),
    ToolCount(
        most=128,
        level="error",
        happens="no request with more is sent; all servers and its own tools count",
        source="microsoft/vscode#255585, microsoft/vscode-copilot-release#13065",
    ),
)
_CURSOR = (
    NameLength(
        most=59,
        prefix="{server}",
        level="error",
        happens="the tool is left out",
        source="ComposioHQ/composio#2788, awslabs/mcp#1283",
    ),
    ToolCount(
        most=40,
        level="warning",
        happens="models choose badly among more; all servers count",
        source="mcptrove.com/glossary/tool-budget",
    ),
)
_WINDSURF = (
    ToolCount(
        most=100,
        level="error",
        happens="more are not available; all servers count",
        source="docs.windsurf.com/windsurf/cascade/mcp",
    ),
)
_ZED = (
    NameLength(
        most=64,
        level="warning",
        happens="the name is truncated, and tools with the same name are all left out",
        source="zed-industries/zed crates/agent/src/thread.rs",
    ),
    UnsupportedKeywords(
        words=("$ref",),
        level="warning",
        happens="before July 2026 the tool is left out with models of Google, xAI and others",
        source="zed-industries/zed#60162, #60165",
    ),
    UnsupportedKeywords(
        words=("if", "then", "else"),
        level="warning",
        happens="the tool is left out with models of Google, xAI and others",
        source="zed-industries/zed crates/language_model/src/tool_schema.rs",
    ),
    NoQuestions(level="note", happens="it cannot ask the user", source="zed.dev/docs/ai/mcp"),
)
_CODEX = (
    NameLength(
        most=64,
        prefix="mcp__{server}__",
        level="warning",
        happens="the end of the name is replaced by a hash",
        source="openai/codex codex-rs/core/src/mcp_connection_manager.rs",
    ),
    UnsupportedKeywords(
        words=("$ref",), level="warning", happens="the model sees it as text", source="openai/codex#3152"
    ),
    UnsupportedKeywords(
        words=_ROOT,
        at="root",
        level="warning",
        happens="properties beside it may be lost",
        source="openai/codex#42283",
    ),
    UnsupportedKeywords(
        words=("anyOf", "oneOf"),
        level="warning",
        happens="the model may see it as text",
        source="openai/codex#13768, openai/codex#20604",
    ),
    StructuredOnly(
        level="note",
        happens="the model only sees the structured content of a result",
        source="openai/codex#38287",
    ),
)
_GEMINI_CLI = (
    NameLength(
        most=63,
        prefix="mcp_{server}_",
        level="warning",
        happens="the middle of the name is cut out",
        source="google-gemini/gemini-cli packages/core/src/tools/mcp-tool.ts",
    ),
    UnsupportedKeywords(
        words=("$ref",),
        level="error",
        happens="every request fails while the tool is there",
        source="google-gemini/gemini-cli#13326, google-gemini/gemini-cli#13142",
    ),
    UnsupportedKeywords(
        words=("propertyNames",),
        level="warning",
        happens="requests with it have been rejected",
        source="asbis/shapeitup release v1.6.2 (2026-04)",
    ),
    TextEnumsOnly(
        level="warning",
        happens="requests with values that are not text have been rejected",
        source="microsoft/azure-devops-mcp#145",
    ),
)
_GOOSE = (
    NameLength(
        most=64,
        prefix="{server}__",
        level="error",
        happens="every message fails while the tool is there, with models of Google among others",
        source="aaif-goose/goose#3456",
    ),
    UnsupportedKeywords(
        words=("anyOf", "oneOf", "allOf"),
        at="root",
        level="error",
        happens="every message fails with models of Anthropic while the tool is there",
        source="aaif-goose/goose#2150",
    ),
    ToolCount(most=25, level="warning", happens="it recommends no more", source="aaif-goose/goose#2927"),
)
_OPENCODE = (
    UnsupportedKeywords(
        words=("anyOf", "oneOf", "allOf"),
        at="root",
        level="error",
        happens="every message fails with models of Anthropic while the tool is there",
        source="anomalyco/opencode#46628",
    ),
)
_COPILOT_CLI = (
    NameCharacters(
        pattern=_PLAIN,
        level="error",
        happens="every message fails while the tool is there",
        source="github/copilot-cli#1879",
    ),
    NameLength(
        most=128,
        prefix="{server}-",
        level="error",
        happens="every message fails while the tool is there",
        source="github/copilot-cli#1879, github/copilot-cli#2223",
    ),
    PropertiesRequired(
        level="error",
        happens="every message fails with models of OpenAI while the tool is there",
        source="github/copilot-cli#1825",
    ),
    UnsupportedKeywords(
        words=("$ref",),
        level="warning",
        happens="the model does not see what it leads to, and leaves arguments out",
        source="github/copilot-cli#1876",
    ),
)
_CLINE = (
    PropertiesRequired(
        level="warning",
        happens="every message fails with models of Google while the tool is there",
        source="cline/cline#11162",
    ),
)
_LM_STUDIO = (
    NoImages(
        level="note",
        happens="the user sees an image in a result, the model does not",
        source="lmstudio-ai/lmstudio-bug-tracker#1746, lmstudio-ai/lmstudio-bug-tracker#1596",
    ),
)

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(name="claude-code", title="Claude Code", facts=_CLAUDE_CODE),
        Profile(name="claude-desktop", title="Claude Desktop", facts=_CLAUDE_DESKTOP),
        Profile(name="cline", title="Cline", facts=_CLINE),
        Profile(name="codex", title="Codex", facts=_CODEX),
        Profile(name="continue", title="Continue"),
        Profile(name="copilot-cli", title="Copilot CLI", facts=_COPILOT_CLI),
        Profile(name="cursor", title="Cursor", facts=_CURSOR),
        Profile(name="gemini-cli", title="Gemini CLI", facts=_GEMINI_CLI),
        Profile(name="goose", title="Goose", facts=_GOOSE),
        Profile(name="lm-studio", title="LM Studio", facts=_LM_STUDIO),
        Profile(name="opencode", title="opencode", facts=_OPENCODE),
        Profile(name="vscode", title="VS Code", facts=_VSCODE),
        Profile(name="windsurf", title="Windsurf", facts=_WINDSURF),
        Profile(name="zed", title="Zed", facts=_ZED),
    )
}
"""Keys are the names of clients on the command line and in the settings."""
