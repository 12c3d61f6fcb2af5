"""One module per table or figure, and what they share: cells, worker processes, runs, tuning, sweeps."""
