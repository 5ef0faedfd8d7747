"""Trust in upstreams: pinned definitions, screened texts, bounded schemas, and credentials."""
