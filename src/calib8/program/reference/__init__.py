"""The executor in NumPy that defines every bit of a program; one file per family of instructions."""
