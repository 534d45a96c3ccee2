"""Attacks on what sides received, one file each, with a citation, a threat model and a control."""
