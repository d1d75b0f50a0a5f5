"""A quantized model, ready to run: ONNX Runtime's ``run``, ``get_inputs``, ``get_outputs`` over integers.

.onnx, ModelProto, bytes ──load──► onnx_ir.Model ──lower (per shape)──► Program ──compile──► Plan ──► Engine
program file, Program ──────────────────────────────────────────────────┘                    │
plan file, Plan ─────────────────────────────────────────────────────────────────────────────┘

A plan file is opened without importing what only the other ways need.
"""

from calib8.session.inference import InferenceSession as InferenceSession
from calib8.session.ports import NodeArg as NodeArg
from calib8.session.reports import Memory as Memory
from calib8.session.reports import StepTime as StepTime
