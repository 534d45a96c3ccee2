"""One run: its plan, its model, the training loop, who is absent, how it is resumed."""
