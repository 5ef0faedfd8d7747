"""Commands as tools: programs that run without a shell, with arguments from a template."""
