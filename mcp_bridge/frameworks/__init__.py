"""Tools of other Python frameworks, recognised by their shape: one file per framework, imported only where needed."""
