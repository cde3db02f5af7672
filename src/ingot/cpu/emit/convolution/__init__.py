"""Drivers of convolutions: direct, Winograd's, and gradients of filters."""
