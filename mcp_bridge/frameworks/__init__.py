"""Tools of other Python frameworks, told by their shape: one file a framework, and none imports what is not there."""
