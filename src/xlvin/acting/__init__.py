"""Acting fast: a network's forward pass recorded once, and replayed in NumPy."""
