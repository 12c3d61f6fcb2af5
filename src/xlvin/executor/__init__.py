"""The executor X: a graph network pretrained to run value iteration, and frozen."""
