"""The provider modules of this package: language models behind one interface (PROVIDER_CONTRACT 1.0.0)."""
