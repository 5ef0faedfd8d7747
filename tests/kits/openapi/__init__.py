"""HTTP APIs for tests, and bridges with their OpenAPI documents."""
