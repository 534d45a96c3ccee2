"""Seals: what happens to a message on its way, or to the labels, before anybody else sees them."""
