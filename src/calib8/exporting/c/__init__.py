"""Programs as C: a network as one .c and one .h file for microcontrollers."""
