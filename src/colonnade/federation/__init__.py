"""Between organisations: one TLS 1.3 stream per party, certificates on both sides, and only the owner opens a port."""
