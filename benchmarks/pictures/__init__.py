"""The VIM paper's figures and tables, ours beside its numbers."""
