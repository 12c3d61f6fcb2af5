"""Mazes: the continual protocol, hindsight, imitation, TransE alone."""
