"""Float Tengine models as ONNX graphs that compute the same."""
