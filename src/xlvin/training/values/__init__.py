"""Q-learning from replay, for agents whose tail says values."""
