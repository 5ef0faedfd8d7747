"""The options of a source of skills in the settings file. Imported late, because it imports pydantic."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from mcp_bridge._contracts.extension import ToolSource
from mcp_bridge._settings import SettingsModel
from mcp_bridge._sources.skills.source import SkillsSource


class SkillsOptions(SettingsModel):
    """Skills: folders with a `SKILL.md`, which explain to models how to use the tools."""

    path: str = Field(
        min_length=1,
        description="One skill, or a folder of skills. Relative paths start at the folder of the settings file.",
    )

    def build(self, name: str, directory: Path, *, watch: bool) -> ToolSource:
        return SkillsSource(name, directory / self.path)

    def default_name(self) -> str:
        return Path(self.path).name or "skills"
