"""One run of the command: what is stale, taking it, judging it, keeping it, publishing it whole, and saying so."""
