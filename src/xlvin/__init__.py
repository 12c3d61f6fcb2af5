"""eXecuted Latent Value Iteration Networks: implicit planning with a frozen value-iteration executor."""

__version__ = "0.1.0"
