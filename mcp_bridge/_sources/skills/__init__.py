"""The source of skills: folders with a SKILL.md, which explain to models how to use tools."""
