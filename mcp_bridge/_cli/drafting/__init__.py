"""`import command`: drafts the settings of a command from the description that its program gives of itself."""
