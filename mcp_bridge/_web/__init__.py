"""The web page for developers and operators: its API, its events and its files."""
