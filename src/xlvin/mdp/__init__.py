"""Tabular MDPs, value iteration and its traces, and synthetic families of MDPs."""
