"""From ranges to codes: weights and biases as integers, Q/DQ nodes in the graph."""
