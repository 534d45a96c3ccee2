"""Who matters, and why: importance of parties on held-out rows, retraining with some, noise on trial, maps.

Written for a trained run and method-agnostic: what is asked goes through the run's own runtime, channel and ledger.
"""
