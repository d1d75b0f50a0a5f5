"""Tengine's model files (``.tmfile``, version 2): read, checked and written."""
