"""One report of a run: what became of a model and why, told in values and drawn on one HTML page."""
