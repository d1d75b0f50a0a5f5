"""The float graph: reading, writing, looking at it, running it in ONNX Runtime."""
