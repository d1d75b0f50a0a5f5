"""Statistics of activations, gathered in one pass, and the choice of ranges from them."""
