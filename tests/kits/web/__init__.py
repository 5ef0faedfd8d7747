"""Kits for the tests of the web page."""
