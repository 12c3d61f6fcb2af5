"""Policy networks: each is an encoder, a planner and heads, nothing else."""
