"""A federation between organisations: every side in its own process, with its own keys, connections and records."""
