"""Kit of the tests of shared servers."""
