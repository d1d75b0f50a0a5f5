"""Quantized models in the forms of other runtimes: a file format or a set of operators per module."""
