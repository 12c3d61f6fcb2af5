"""Atari: rounds of frames on a GPU, and the loop around them."""
