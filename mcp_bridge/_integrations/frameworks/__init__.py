"""Tools of other Python frameworks: one adapter module per framework, imported once an object of it is found."""
