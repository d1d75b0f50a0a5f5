"""What the outputs of a network mean, and how well each kind of them is kept."""
