"""What the outputs of a model mean, and how well each kind of them is kept."""
