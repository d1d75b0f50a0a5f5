"""Training with the rounding of the int8 model simulated, in PyTorch."""

from importlib.util import find_spec

from calib8.errors import UsageError

if find_spec("torch") is None:
    raise UsageError("training", "the package torch is not installed", "Run: pip install 'calib8[qat]'")
