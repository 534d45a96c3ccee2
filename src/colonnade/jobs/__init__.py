"""Jobs: a run written down in TOML, and doing what it says."""
