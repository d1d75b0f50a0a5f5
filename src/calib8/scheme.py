"""What is quantized and how, as data: ``QuantScheme`` and the presets of the targets.

A target is a value, never a class with code: what it wants is said by the fields of its line in ``TARGETS``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, TypedDict, get_args

from calib8.errors import UsageError
from calib8.ops.groups import BINARY_OPS as BINARY_OPS
from calib8.ops.groups import CLAMPS
from calib8.ops.groups import CODE_PRESERVING_OPS as CODE_PRESERVING_OPS
from calib8.ops.groups import FUNCTION_OPS as FUNCTION_OPS
from calib8.ops.groups import PAIR_OPS as PAIR_OPS
from calib8.ops.groups import TARGET_OPS as TARGET_OPS
from calib8.ops.groups import UNARY_OPS as UNARY_OPS
from calib8.ops.groups import WEIGHTED_OPS as WEIGHTED_OPS
from calib8.parameters import one_of, parameter
from calib8.qparams import INT8, INT8_SYMMETRIC, INT16, INT16_SYMMETRIC, UINT8, QuantSpec
from calib8.requests import Request

Granularity: TypeAlias = Literal["per-channel", "per-tensor"]
"""How many scales a weight has: one per output channel, or one."""

Recurrence: TypeAlias = Literal["float", "hybrid", "integer"]
"""How recurrent layers are computed."""

RECURRENCES: Final[tuple[Recurrence, ...]] = get_args(Recurrence)

GRANULARITIES: Final[tuple[Granularity, ...]] = get_args(Granularity)

ACTIVATION_TYPES: Final[dict[str, QuantSpec]] = {
    "uint8": UINT8,
    "int8": INT8,
    "int8-symmetric": INT8_SYMMETRIC,
}

ANY_FUNCTION: Final = "any function of one tensor"
"""In ``QuantScheme.fuses``: not one of the names, but all there are."""


@dataclass(frozen=True)
class QuantScheme:
    """What a target takes.

    Attributes:
        name: name of the target.
        activations: code of the activations.
        weights: code of the weights, symmetric, codes −127 … 127.
        weight_granularity: one scale per output channel, or one for the whole weight, which is all that some
            chips take. Layers then want ``calib8.repair.cross_layer`` first.
        placement: ``every-op``: Q/DQ on inputs and outputs of every quantized op;
            ``weighted-inputs``: Q/DQ only on the inputs of conv/matmul, of the averaging pools, and on
            one branch of residual additions (what TensorRT fuses).
        quantize_bias: bias as int32 codes with a DequantizeLinear; otherwise it stays float.
        shared_scale_ops: ops whose inputs and outputs must have one scale, beyond those that move codes.
        concat_share_ratio: inputs of a Concat share one scale when the largest range is at most so many
            times the smallest (inf: always, 0: never).
        pair_limit: largest sum of two weight codes of one sign that a kernel multiplies together (see
            ``calib8.quantization.pairs``); channels that exceed it get a larger scale. None: any.
        joins_pointwise: a function of one tensor is computed as one, however many nodes it is made of, in
            float from the codes of its input to those of its result.
        fuses: functions that the runtime computes together with the sums of the weighted layer before them,
            no codes in between: ops, names of ``calib8.passes.functions.function_name``, or ``ANY_FUNCTION``.
            Relu, and Clip from 0, an addition or a pool takes as well.
        seal_float_layers: layers in float need a seal, see ``calib8.quantization.seal``.
        quantize_outputs: the graph's outputs pass through Q/DQ even where the last op could give floats.
        takes: names of the activation types that the target can run.
        cautions: activation type → what the user should know before choosing it.
        computes: ops beyond those with an integer form for every target that this one computes from codes.
        recurrent: how LSTM, GRU and RNN are computed. ``float``: as they are; ``hybrid``: weights are codes,
            and what they are multiplied with gets codes while it is computed, so that no tensor beside these
            nodes needs any; ``integer``: LSTM and GRU from codes to codes with 16-bit gates and states, RNN
            float (``calib8.passes.integer_cells``).
        takes_recurrent: which of these the target can run.
        contrib_cells: of hybrid recurrent layers, op → the op of ``com.microsoft`` that has its weights as
            codes; empty: the op itself reads them through DequantizeLinear.
        spots: code of single activations for which 8 bits are too few, see ``calib8.passes.spots``; None: the
            target has no integer form for them.
        chooses_spots: the search for accuracy gives activations such codes where they need them; False: only
            those that are named, or ``repair`` asks for, for the runtime has slow kernels for them, or its
            chips none.
        multiplies_activations: a MatMul of two activations before a layer takes codes of both; False: they
            have codes where other nodes yield or read some.
        mixes_floats: a few layers in float among those in int8 cost the time that they take and nothing else.
    """

    name: str
    activations: QuantSpec = UINT8
    weights: QuantSpec = INT8_SYMMETRIC
    weight_granularity: Granularity = "per-channel"
    placement: Literal["every-op", "weighted-inputs"] = "every-op"
    quantize_bias: bool = True
    shared_scale_ops: frozenset[str] = frozenset()
    concat_share_ratio: float = 2.0
    pair_limit: int | None = None
    joins_pointwise: bool = False
    fuses: frozenset[str] = CLAMPS
    seal_float_layers: bool = False
    quantize_outputs: bool = False
    takes: tuple[str, ...] = tuple(ACTIVATION_TYPES)
    cautions: Mapping[str, str] = field(default_factory=dict)
    computes: frozenset[str] = frozenset()
    recurrent: Recurrence = "float"
    takes_recurrent: tuple[Recurrence, ...] = ("float",)
    contrib_cells: Mapping[str, str] = field(default_factory=dict)
    spots: QuantSpec | None = None
    chooses_spots: bool = False
    multiplies_activations: bool = False
    mixes_floats: bool = False

    @property
    def activation_name(self) -> str:
        """Key of ``ACTIVATION_TYPES`` for ``activations``."""
        return next(name for name, spec in ACTIVATION_TYPES.items() if spec == self.activations)

    def code_of(self, tensor: str, spots: Collection[str]) -> QuantSpec:
        """Code of an activation, where some of them are spots."""
        return self.spots if self.spots is not None and tensor in spots else self.activations

    def with_activations(self, name: str) -> QuantScheme:
        """The same scheme with another activation type.

        Raises:
            UsageError: unknown type, or one that the target cannot take.
        """
        spec = activation_type(name)
        if name not in self.takes:
            raise UsageError(
                parameter("activations", name),
                f"target '{self.name}' takes {' or '.join(self.takes)} only",
                f"Use {self.takes[0]}",
            )
        return replace(self, activations=spec)

    def with_weights(self, name: str) -> QuantScheme:
        """The same scheme with another granularity of the weights' scales.

        Raises:
            UsageError: there is no such granularity.
        """
        for granularity in GRANULARITIES:
            if name == granularity:
                return replace(self, weight_granularity=granularity)
        raise UsageError(parameter("weights", name), "unknown granularity", one_of(name, GRANULARITIES))

    def with_recurrent(self, name: str) -> QuantScheme:
        """The same scheme with recurrent layers computed in another way.

        Raises:
            UsageError: there is no such way, or the target does not have it.
        """
        for recurrence in RECURRENCES:
            if name == recurrence and recurrence in self.takes_recurrent:
                return replace(self, recurrent=recurrence)
        if name not in RECURRENCES:
            raise UsageError(parameter("recurrent", name), "unknown form", one_of(name, RECURRENCES))
        problem = f"target '{self.name}' has LSTM and GRU in {' or '.join(self.takes_recurrent)} form only"
        able = [one.name for one in TARGETS.values() if name in one.takes_recurrent]
        cure = f"Use {parameter('target')} {' or '.join(able)}, or leave it out"
        raise UsageError(parameter("recurrent", name), problem, cure)


_ONNXRUNTIME: Final = QuantScheme(
    "onnxruntime",
    joins_pointwise=True,
    seal_float_layers=True,
    mixes_floats=True,
    takes_recurrent=("float", "hybrid"),
    contrib_cells={"LSTM": "DynamicQuantizeLSTM"},
    cautions={
        "int8": "ONNX Runtime on x86 leaves int8 layers with several readers in float unless the "
        "session option session.qdqisint8allowed is set to 1; uint8 is its fast path",
        "int8-symmetric": "ONNX Runtime runs layers followed by Relu or Clip in float: zero point 0 "
        "does not clip at 0; uint8 is its fast path",
    },
)

TARGETS: Final[dict[str, QuantScheme]] = {
    scheme.name: scheme
    for scheme in (
        _ONNXRUNTIME,
        replace(
            _ONNXRUNTIME,
            name="onnxruntime-avx2",
            pair_limit=128,
            takes_recurrent=("float",),
            contrib_cells={},
        ),
        replace(
            _ONNXRUNTIME,
            name="calib8",
            fuses=CLAMPS | {ANY_FUNCTION},
            cautions={},
            computes=TARGET_OPS | PAIR_OPS,
            recurrent="hybrid",
            takes_recurrent=("hybrid", "integer"),
            contrib_cells={},
            spots=INT16,
            chooses_spots=True,
            multiplies_activations=True,
            mixes_floats=False,
        ),
        QuantScheme(
            "openvino",
            shared_scale_ops=frozenset({"Concat"}),
            joins_pointwise=True,
            mixes_floats=True,
            fuses=CLAMPS
            | {"Abs", "Elu", "Gelu", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Sigmoid", "Swish", "Tanh"},
        ),
        QuantScheme(
            "tflite",
            activations=INT8,
            shared_scale_ops=frozenset({"AveragePool", "Concat"}),
            quantize_outputs=True,
            takes=("int8",),
            takes_recurrent=("float", "integer"),
            spots=INT16_SYMMETRIC,
        ),
        QuantScheme(
            "tensorrt",
            activations=INT8_SYMMETRIC,
            placement="weighted-inputs",
            mixes_floats=True,
            quantize_bias=False,
            takes=("int8-symmetric",),
        ),
        QuantScheme(
            "tengine",
            activations=INT8_SYMMETRIC,
            concat_share_ratio=float("inf"),
            quantize_outputs=True,
            takes=("int8-symmetric",),
        ),
        QuantScheme(
            "ncnn",
            activations=INT8_SYMMETRIC,
            placement="weighted-inputs",
            mixes_floats=True,
            quantize_bias=False,
            takes=("int8-symmetric",),
        ),
    )
}


def activation_type(name: str) -> QuantSpec:
    """The code of an activation type.

    Raises:
        UsageError: there is no such type.
    """
    if name not in ACTIVATION_TYPES:
        raise UsageError(parameter("activations", name), "unknown type", one_of(name, ACTIVATION_TYPES))
    return ACTIVATION_TYPES[name]


def target_scheme(name: str) -> QuantScheme:
    """The preset of a target.

    Raises:
        UsageError: there is no such target.
    """
    if name not in TARGETS:
        raise UsageError(parameter("target", name), "unknown target", one_of(name, TARGETS))
    return TARGETS[name]


@dataclass(frozen=True)
class TargetChoice(Request):
    """Which target the codes are for, and what is asked of it.

    Attributes:
        target: a key of ``TARGETS``; None: ``onnxruntime``, in ``tune`` that of the runtime.
        activations: a key of ``ACTIVATION_TYPES``, None for the target's own.
        weights: ``per-channel``: a scale per output channel; ``per-tensor``: one for each weight.
        recurrent: ``hybrid`` or ``integer`` LSTM and GRU, see ``QuantScheme``; None for the target's own.

    Raises:
        UsageError: one of them does not exist, or the target does not take it.
    """

    target: str | None = None
    activations: str | None = None
    weights: str = "per-channel"
    recurrent: str | None = None

    def __post_init__(self) -> None:
        """Checks what is asked for."""
        super().__post_init__()
        self.scheme()

    def scheme(self, default: str = "onnxruntime") -> QuantScheme:
        """The target's preset with what is asked of it; ``default`` is the target where none is named."""
        scheme = target_scheme(self.target or default).with_weights(self.weights)
        if self.recurrent is not None:
            scheme = scheme.with_recurrent(self.recurrent)
        return scheme if self.activations is None else scheme.with_activations(self.activations)


class TargetWords(TypedDict, total=False):
    """The fields of a ``TargetChoice`` beside the target, as keywords."""

    activations: str | None
    weights: str
    recurrent: str | None


def check_has_spots(scheme: QuantScheme, subject: str) -> None:
    """Refuses what asks for 16-bit codes of single activations where the target has none.

    Args:
        scheme: of the target.
        subject: what asks for them, as errors name it.

    Raises:
        UsageError: it has none.
    """
    if scheme.spots is None:
        able = " or ".join(name for name, one in TARGETS.items() if one.spots is not None)
        problem = f"the target '{scheme.name}' has 8-bit codes alone"
        raise UsageError(subject, problem, f"Use {parameter('target')} {able}, or leave it out")
