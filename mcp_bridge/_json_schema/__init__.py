"""Handles JSON Schema: validation with exact messages, inference from signatures, forms, headers, URI templates."""
