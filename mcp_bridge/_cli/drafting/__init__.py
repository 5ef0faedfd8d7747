"""`import command`: drafts the settings of a command from the help text of its program."""
