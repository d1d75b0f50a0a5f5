"""What every room knows of ONNX ops: one table, sets of ops taken from it, questions about a node."""
