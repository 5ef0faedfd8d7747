"""Names of the extension io.modelcontextprotocol/skills (SEP-2640)."""

from __future__ import annotations

SKILLS = "io.modelcontextprotocol/skills"
SKILL_FILE = "SKILL.md"
"""The file at the root of every skill."""
FRONTMATTER = "io.modelcontextprotocol.skills/frontmatter"
"""In the `_meta` of the resource of a SKILL.md: its frontmatter."""
DIGEST = "io.modelcontextprotocol.skills/digest"
"""In the `_meta` of the resource of each file of a skill: `sha256:` and the hash of its bytes."""
DIRECTORY_TYPE = "inode/directory"
"""The MIME type of directories in the result of resources/directory/read."""
