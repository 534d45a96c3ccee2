"""Tables in life: files are read, rows aligned in private, columns prepared for a network."""
