"""The integer program: lowered from a QDQ graph, defined bit by bit by a reference executor."""
