"""The planner: expand a latent tree (algorithm 1), execute value iteration over it (algorithm 2)."""
