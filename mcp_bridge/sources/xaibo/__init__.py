"""Tools of Xaibo providers and agents."""
