"""A run told to a tracker of experiments: MLflow, TensorBoard or Weights & Biases."""
