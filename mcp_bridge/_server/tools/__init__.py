"""The methods of tools, and the tools of the server itself."""
