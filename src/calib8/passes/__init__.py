"""Rewrites of the float graph and of the calibration table, one per file."""
