"""Repairs that need data: what is done to a float model and its codes so that int8 keeps its accuracy."""
