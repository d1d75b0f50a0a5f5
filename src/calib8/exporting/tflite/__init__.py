"""A program of the profile ``tflite`` as a TFLite graph: an operator or a few per instruction."""
