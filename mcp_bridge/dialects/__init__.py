"""What clients accept of tools, what they would reject, and how a schema is told so that they take it."""
