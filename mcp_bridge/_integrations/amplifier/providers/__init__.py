"""The providers of this package. They give language models one interface (PROVIDER_CONTRACT 1.0.0)."""
