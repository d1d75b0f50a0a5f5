"""PyTorch modules where models are taken: traced, exported to ONNX, compared with what they compute."""
