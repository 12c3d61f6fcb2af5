"""Rollouts, returns, losses, the loop, evaluation and checkpoints."""
