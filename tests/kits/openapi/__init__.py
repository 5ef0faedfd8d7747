"""HTTP APIs for tests, and bridges that serve their OpenAPI documents."""
