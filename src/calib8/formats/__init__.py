"""Calibration tables of other tools, read and written: one file per format, both directions in each."""
