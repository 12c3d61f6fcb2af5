"""Learning inside models of the world: ensembles, counted worlds, the agent's own latent model."""
