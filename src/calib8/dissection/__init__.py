"""Int8 graphs taken apart: what the codes of a part alone do to the outputs."""
