"""What a side keeps on disk: checkpoints, run folders, budgets, states."""
