"""Parties in other processes: requests, replies, and what carries them."""
