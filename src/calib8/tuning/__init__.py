"""The cheapest int8 model that keeps a promise about its accuracy; ``tune`` is where to begin."""
