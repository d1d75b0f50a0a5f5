"""Training with the rounding of the int8 model simulated, in PyTorch."""

from calib8.training.agreement import Agreement as Agreement
from calib8.training.agreement import agreement as agreement
from calib8.training.batch_norm import reestimate_batch_norms as reestimate_batch_norms
from calib8.training.convert import convert as convert
from calib8.training.convert import freeze as freeze
from calib8.training.prepare import prepare as prepare
from calib8.training.simulated_model import SimulatedModel as SimulatedModel
