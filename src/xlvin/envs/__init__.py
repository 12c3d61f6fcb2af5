"""Environments behind one interface."""
