"""A message on its way: its bytes, its seals, its line in the ledger."""
