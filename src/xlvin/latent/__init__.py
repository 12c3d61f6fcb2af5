"""The latent model: state encoders z, the transition model T, and the losses that train them."""
