"""What drives a run: the loop that reconciles, and the handlers that carry requests out. No decision is made here."""
