"""Tengine models in int8 codes."""
