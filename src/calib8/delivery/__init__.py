"""A quantized model becomes the file of a runtime: a plan, a TFLite or QOperator model, a program."""
