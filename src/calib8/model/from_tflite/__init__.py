"""Float TFLite graphs as ONNX graphs that compute the same: a node or a few per operator."""
