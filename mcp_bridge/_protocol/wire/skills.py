"""Names of the extension io.modelcontextprotocol/skills (SEP-2640)."""

from __future__ import annotations

SKILLS = "io.modelcontextprotocol/skills"
SKILL_FILE = "SKILL.md"
"""The file at the root of every skill."""
FRONTMATTER = "io.modelcontextprotocol.skills/frontmatter"
"""The key for the frontmatter of a SKILL.md, in the `_meta` of its resource."""
DIGEST = "io.modelcontextprotocol.skills/digest"
"""The key for `sha256:` and the hash of a file's bytes, in the `_meta` of the resource of each file of a skill."""
DIRECTORY_TYPE = "inode/directory"
"""The MIME type of directories in the result of resources/directory/read."""
