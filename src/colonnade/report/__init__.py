"""Pages about runs, and the small local server that shows them."""
