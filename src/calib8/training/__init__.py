"""Training with the rounding of the int8 model simulated, in PyTorch."""
