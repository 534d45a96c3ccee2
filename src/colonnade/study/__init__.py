"""What is done with runs: selection, explanation, sweeps, scores, distillation."""
