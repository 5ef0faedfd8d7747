"""A source that publishes the offer of an upstream."""
