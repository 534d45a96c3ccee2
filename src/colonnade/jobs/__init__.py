"""Job files: a run described in TOML, and the functions that execute it."""
