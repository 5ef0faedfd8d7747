"""The table of facts about which tools each client accepts. Every fact names its source (a thread, a page, a file).

Collected in November 2026. Clients change: remove outdated facts, and add only facts with a source.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bridge._protocol.dialects.profile import (
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

_COMBINATORS = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else")
_UNIONS = ("anyOf", "oneOf", "allOf")
_PLAIN_NAME = "[A-Za-z0-9_-]+"
_ALL_FAIL = "every message fails while the tool is there"
_STRINGS = StringArguments(
    "note",
    "arguments that are objects or lists may arrive as JSON in a string, and are then rejected",
    "anthropics/claude-code#59227",
)
_PROFILES = (
    Profile(name="amp", title="Amp"),
    Profile(name="antigravity", title="Antigravity"),
    Profile(name="claude-code", title="Claude Code", facts=(
        NameLength("error", "a call to the tool ends the conversation",
            "mims-harvard/ToolUniverse#65, anthropics/claude-code#19882", most=64, prefix="mcp__{server}__"),
        UnsupportedKeywords("error", "the tool is silently left out",
            "anthropics/claude-code#95504", words=_COMBINATORS, at="root"),
        # 25,000 tokens, at about four characters each
        ResultSize("note", "longer results are truncated or saved to a file (MAX_MCP_OUTPUT_TOKENS)",
            "code.claude.com/docs/en/mcp, anthropics/claude-code#70280", most=100_000),
        _STRINGS,
    )),
    Profile(name="claude-desktop", title="Claude Desktop", facts=(
        NameLength("error", _ALL_FAIL, "anthropics/claude-code#34960", most=64),
        NoQuestions("note", "it cannot ask the user", "anthropics/claude-code#96043"),
        NoImages("note", "the model sees an image in a result only in its next turn", "anthropics/claude-ai-mcp#643"),
        _STRINGS,
    )),
    Profile(name="cline", title="Cline", facts=(
        PropertiesRequired("warning", "every message fails with models of Google while the tool is there",
            "cline/cline#11162"),
    )),
    Profile(name="codex", title="Codex", facts=(
        NameLength("warning", "the end of the name is replaced by a hash",
            "openai/codex codex-rs/core/src/mcp_connection_manager.rs", most=64, prefix="mcp__{server}__"),
        UnsupportedKeywords("warning", "the model sees it as text", "openai/codex#3152", words=("$ref",)),
        UnsupportedKeywords("warning", "properties beside it may be lost",
            "openai/codex#42283", words=_COMBINATORS, at="root"),
        UnsupportedKeywords("warning", "the model may see it as text",
            "openai/codex#13768, openai/codex#20604", words=("anyOf", "oneOf")),
        StructuredOnly("note", "the model only sees the structured content of a result", "openai/codex#38287"),
    )),
    Profile(name="continue", title="Continue"),
    Profile(name="copilot-cli", title="Copilot CLI", facts=(
        NameCharacters("error", _ALL_FAIL, "github/copilot-cli#1879", pattern=_PLAIN_NAME),
        NameLength("error", _ALL_FAIL,
            "github/copilot-cli#1879, github/copilot-cli#2223", most=128, prefix="{server}-"),
        PropertiesRequired("error", "every message fails with models of OpenAI while the tool is there",
            "github/copilot-cli#1825"),
        UnsupportedKeywords("warning", "the model does not see what it leads to, and leaves arguments out",
            "github/copilot-cli#1876", words=("$ref",)),
    )),
    Profile(name="crush", title="Crush"),
    Profile(name="cursor", title="Cursor", facts=(
        NameLength("error", "the tool is left out",
            "ComposioHQ/composio#2788, awslabs/mcp#1283", most=59, prefix="{server}"),
        ToolCount("warning", "models choose poorly among more; the tools of all servers count",
            "mcptrove.com/glossary/tool-budget", most=40),
    )),
    Profile(name="gemini-cli", title="Gemini CLI", facts=(
        NameLength("warning", "the middle of the name is removed",
            "google-gemini/gemini-cli packages/core/src/tools/mcp-tool.ts", most=63, prefix="mcp_{server}_"),
        UnsupportedKeywords("error", "every request fails while the tool is there",
            "google-gemini/gemini-cli#13326, google-gemini/gemini-cli#13142", words=("$ref",)),
        UnsupportedKeywords("warning", "requests with it have been rejected",
            "asbis/shapeitup release v1.6.2 (2026-04)", words=("propertyNames",)),
        TextEnumsOnly("warning", "requests with values that are not text have been rejected",
            "microsoft/azure-devops-mcp#145"),
    )),
    Profile(name="goose", title="Goose", facts=(
        NameLength("error", "every message fails while the tool is there, with models of Google among others",
            "aaif-goose/goose#3456", most=64, prefix="{server}__"),
        UnsupportedKeywords("error", "every message fails with models of Anthropic while the tool is there",
            "aaif-goose/goose#2150", words=_UNIONS, at="root"),
        ToolCount("warning", "it recommends at most that many", "aaif-goose/goose#2927", most=25),
    )),
    Profile(name="junie", title="Junie"),
    Profile(name="kilo-code", title="Kilo Code"),
    Profile(name="kiro", title="Kiro", facts=(
        NameLength("warning", "the end of the name is removed",
            "Kiro, extension kiro.kiro-agent (formatToolName)", most=64, prefix="mcp_{server}_"),
        ToolCount("warning", "it warns above that many; the tools of all servers count",
            "Kiro, extension kiro.kiro-agent (MCP_TOOL_COUNT_WARN_THESHOLD)", most=50),
    )),
    Profile(name="librechat", title="LibreChat"),
    Profile(name="lm-studio", title="LM Studio", facts=(
        NoImages("note", "the user sees an image in a result, the model does not",
            "lmstudio-ai/lmstudio-bug-tracker#1746, lmstudio-ai/lmstudio-bug-tracker#1596"),
    )),
    Profile(name="opencode", title="opencode", facts=(
        UnsupportedKeywords("error", "every message fails with models of Anthropic while the tool is there",
            "anomalyco/opencode#46628", words=_UNIONS, at="root"),
    )),
    Profile(name="qwen-code", title="Qwen Code"),
    Profile(name="roo-code", title="Roo Code", facts=(
        NameLength("warning", "the end of the name is removed",
            "RooCodeInc/Roo-Code src/utils/mcp-name.ts", most=64, prefix="mcp--{server}--"),
        NameCharacters("warning", "other characters are removed from the name",
            "RooCodeInc/Roo-Code src/utils/mcp-name.ts", pattern=_PLAIN_NAME),
    )),
    Profile(name="visual-studio", title="Visual Studio"),
    Profile(name="vscode", title="VS Code", facts=(
        NameCharacters("warning", "it warns about the name", "microsoft/vscode#308463", pattern=_PLAIN_NAME),
        ToolCount("error", "it sends no request with more; its own tools and those of all servers count",
            "microsoft/vscode#255585, microsoft/vscode-copilot-release#13065", most=128),
    )),
    Profile(name="warp", title="Warp"),
    Profile(name="windsurf", title="Windsurf", facts=(
        ToolCount("error", "further tools are unavailable; the tools of all servers count",
            "docs.windsurf.com/windsurf/cascade/mcp", most=100),
    )),
    Profile(name="zed", title="Zed", facts=(
        NameLength("warning", "the name is truncated, and tools with the same name are all left out",
            "zed-industries/zed crates/agent/src/thread.rs", most=64),
        UnsupportedKeywords("warning", "versions before July 2026 omit the tool with models of Google, xAI and others",
            "zed-industries/zed#60162, #60165", words=("$ref",)),
        UnsupportedKeywords("warning", "the tool is left out with models of Google, xAI and others",
            "zed-industries/zed crates/language_model/src/tool_schema.rs", words=("if", "then", "else")),
        NoQuestions("note", "it cannot ask the user", "zed.dev/docs/ai/mcp"),
    )),
)  # fmt: skip

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _PROFILES}
"""Keys are the names of clients on the command line and in the settings."""
