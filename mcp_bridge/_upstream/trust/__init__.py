"""Trust in other servers: pinned definitions, screened texts, bounded schemas, and credentials."""
