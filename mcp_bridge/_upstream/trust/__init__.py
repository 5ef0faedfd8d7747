"""What is accepted from other servers: pinned definitions, screened texts, bounded schemas; and their credentials."""
