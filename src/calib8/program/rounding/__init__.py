"""From scales to the rounding parameters that instructions carry; one file per family of operators."""
