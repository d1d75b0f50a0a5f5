"""calib8: a trained FP32 CNN becomes an INT8 one, keeps its accuracy, and proves it."""
