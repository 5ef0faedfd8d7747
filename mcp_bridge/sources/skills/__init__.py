"""The source of skills: folders with a SKILL.md, which tell models how to use tools."""
