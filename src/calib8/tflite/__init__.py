"""TFLite files as typed graphs: read, checked, written. What the numbers mean is decided elsewhere."""
