"""A bridge in the forms in which it is handed on: a bundle, a registry entry, a client file, an image."""
