"""What messages give away, measured: attacks with their controls, and a verdict for every secret."""
