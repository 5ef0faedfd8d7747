"""JSON, YAML and TOML texts with positions: read with the line of each value, edited without touching other bytes."""
