"""Runs programs in NumPy: what each instruction computes is in the module of its family in ``ops``."""
