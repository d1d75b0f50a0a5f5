"""Quantized TFLite models as programs of the profile ``tflite``: an instruction or a few per operator."""
