"""Values and pure functions that a method is written with."""
