"""How a call of a client runs to its result, with all its questions."""
