"""What a report tells, as values without any HTML; a part that a command has no data for is empty.

Texts may hold both wordings of ``calib8.parameters``; the page chooses one. Decibels may be infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from calib8.report.pictures import Histogram
from calib8.tasks.limits import State

Precision: TypeAlias = Literal["int8", "16 bit", "float", "input"]
"""How a layer computes: ``16 bit`` where some of its codes have 16 bits; ``input`` is one of the model."""


@dataclass(frozen=True)
class Figure:
    """A figure in words.

    Attributes:
        label: what it is.
        value: the figure with its unit.
        note: what else to know of it; may be empty.
        numbers: the figure for machines, name → number; empty where it is none. Shares are 0 … 1.
    """

    label: str
    value: str
    note: str = ""
    numbers: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Headline:
    """The verdict.

    Attributes:
        state: the word.
        word: the same for people, such as ``visibly damaged``, or that a promise is kept.
        text: by which judge, on which and how many samples.
        figures: accuracy, size, speed.
        next: the command to go on with; empty where there is none.
    """

    state: State
    word: str
    text: str
    figures: tuple[Figure, ...]
    next: str = ""


@dataclass(frozen=True)
class Attempt:
    """Something that was tried to keep the accuracy.

    Attributes:
        name: of it.
        before_db, after_db: what judged, in dB; NaN where nothing did.
        kept: it is part of the result.
        notes: what else there is to know.
    """

    name: str
    before_db: float
    after_db: float
    kept: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A cause of a loss: where it is, and what it is with what helps."""

    where: str
    text: str


@dataclass(frozen=True)
class Work:
    """What was done.

    Attributes:
        facts: options, target, data.
        methods: method that chose ranges → of how many tensors, most often used first.
        attempts: repairs or remedies, in the order in which they were tried.
        findings: causes of a loss, the most important first.
        notes: notes, cautions and warnings.
    """

    facts: tuple[Figure, ...] = ()
    methods: tuple[tuple[str, int], ...] = ()
    attempts: tuple[Attempt, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelRow:
    """A model of a comparison: its name, and figures in the order of ``Models.columns``."""

    name: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Models:
    """Models side by side; ``columns`` are the headings of the figures."""

    columns: tuple[str, ...] = ()
    rows: tuple[ModelRow, ...] = ()


@dataclass(frozen=True)
class ClassRow:
    """A class: the shares that FP32 and INT8 are right on, samples lost and won, what it is taken for.

    ``before`` is empty where nothing is compared.
    """

    name: str
    before: str
    after: str
    lost: int
    won: int
    taken_for: str


@dataclass(frozen=True)
class Classes:
    """The worst classes first; how many there are, by what they are judged, whether beside FP32."""

    rows: tuple[ClassRow, ...]
    count: int
    by: Literal["labels", "FP32"]
    compared: bool


@dataclass(frozen=True)
class Channels:
    """Weights of a layer by output channel.

    Attributes:
        count: output channels.
        low, high: smallest and largest weight, of one channel each, or of equally many neighbours.
        together: how many neighbours an entry stands for.
    """

    count: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    together: int


@dataclass(frozen=True)
class LayerRow:
    """A layer, or an input of the model.

    Attributes:
        name: of the node, or of the input.
        op: of the node, empty for an input.
        precision: see ``Precision``.
        why: why it is in float, or which of its tensors have 16 bits; empty for plain int8.
        local_db, cumulative_db: SQNR of the layer alone, and of the model up to it; None: not compared.
        weight_db: SQNR of its weights; None without any in codes.
        saturated: share of the values that are clipped, 0 … 1; None where nothing is known.
        tensors: places in ``RunReport.tensors``: what it yields, then what it reads.
        weights: by channel; None without any.
        parts: other nodes that compute with it.
        macs: share of the multiply-accumulates, 0 … 1; None where it is not known.
    """

    name: str
    op: str
    precision: Precision
    why: str = ""
    local_db: float | None = None
    cumulative_db: float | None = None
    weight_db: float | None = None
    saturated: float | None = None
    tensors: tuple[int, ...] = ()
    weights: Channels | None = None
    parts: tuple[str, ...] = ()
    macs: float | None = None


@dataclass(frozen=True)
class TensorShown:
    """An activation before and after quantization.

    Attributes:
        name: of the tensor.
        observed: smallest and largest value seen, 0 within; None where nothing was seen.
        chosen: real values of the smallest and the largest code; None: it has no codes.
        code: type of the codes with scale and zero point, in words; empty without.
        method: what chose the range; empty where that is not known.
        clipped: share of the values outside of ``chosen``, 0 … 1; None where nothing is known.
        values, zeros: how many values were seen, and how many of them were exactly 0.
        histogram: of the values other than 0; None where nothing was counted.
        codes: how many values share each code, or several neighbours, lowest first; empty likewise.
        first_code: the lowest code.
        together: how many neighbouring codes an entry of ``codes`` stands for.
    """

    name: str
    observed: tuple[float, float] | None
    chosen: tuple[float, float] | None
    code: str = ""
    method: str = ""
    clipped: float | None = None
    values: int = 0
    zeros: int = 0
    histogram: Histogram | None = None
    codes: tuple[float, ...] = ()
    first_code: int = 0
    together: int = 1


@dataclass(frozen=True)
class NetworkNode:
    """A node of the network without what only codes and decodes.

    Attributes:
        name, op: of the node.
        before: places of the nodes that it reads from, in ascending order, each once; all before its own.
        layer: place in ``RunReport.layers``; None where it is in none.
        precision: see ``Precision``.
    """

    name: str
    op: str
    before: tuple[int, ...]
    layer: int | None
    precision: Precision


@dataclass(frozen=True)
class Box:
    """A box in a picture, as shares of its width and height, with class and score."""

    left: float
    top: float
    right: float
    bottom: float
    label: str


@dataclass(frozen=True)
class Answer:
    """What a model says of one sample: lines of text, boxes, a picture with its mask (a data URI)."""

    lines: tuple[str, ...] = ()
    boxes: tuple[Box, ...] = ()
    mask: str = ""


@dataclass(frozen=True)
class SampleShown:
    """A sample that INT8 answers badly.

    Attributes:
        name: of the sample.
        sqnr_db: of its outputs, of several branches the worst.
        picture: what the model sees, as a data URI; empty where it is no picture.
        size: width and height of that picture in pixels.
        float_answer, int8_answer: None where nothing is known to decode the outputs.
        same: both answer the same; None where that cannot be told.
    """

    name: str
    sqnr_db: float
    picture: str
    size: tuple[int, int]
    float_answer: Answer | None
    int8_answer: Answer | None
    same: bool | None


@dataclass(frozen=True)
class CandidateShown:
    """A model that ``tune`` tried.

    Attributes:
        name: what it was made with.
        cost: share of the multiply-accumulates in float, in percent.
        value, bound: the promised figure, and what it is at worst.
        floats: nodes in float.
        weights: bytes of all weights, one each in int8 and four in float; None where the model is not known.
        kept: it keeps the promise.
        chosen: it is the result.
        front: none is as cheap and better, or as good and cheaper; where models were timed, none is as fast
            and better, or as good and faster.
        latency: milliseconds of a run; None where nothing was timed.
    """

    name: str
    cost: float
    value: float
    bound: float
    floats: int
    weights: int | None
    kept: bool
    chosen: bool
    front: bool
    latency: float | None = None


@dataclass(frozen=True)
class Candidates:
    """All models that ``tune`` tried; what was promised, in its unit, and whether smaller is better."""

    noun: str
    unit: str
    promised: float
    smaller_is_better: bool
    shown: tuple[CandidateShown, ...]


@dataclass(frozen=True)
class RunReport:
    """All that a page tells.

    Attributes:
        title: what was looked at.
        command: that did it, such as ``quantize``.
        headline: the verdict.
        work: what was done.
        models: side by side.
        classes: of a classifier that was evaluated; None of others.
        layers: worst local figure first, then those without any in graph order.
        layers_note: on which samples layers were compared, or why they were not.
        network: the nodes, in an order in which each stands behind those that it reads from.
        tensors: activations.
        tensors_note: where the histograms are from.
        samples: the worst first.
        samples_note: on which samples they are the worst.
        candidates: of ``tune``; None of other commands.
        timings: stage → seconds.
        environment: versions, processor.
    """

    title: str
    command: str
    headline: Headline
    work: Work = Work()
    models: Models = Models()
    layers: tuple[LayerRow, ...] = ()
    layers_note: str = ""
    network: tuple[NetworkNode, ...] = ()
    tensors: tuple[TensorShown, ...] = ()
    tensors_note: str = ""
    samples: tuple[SampleShown, ...] = ()
    samples_note: str = ""
    candidates: Candidates | None = None
    timings: tuple[tuple[str, float], ...] = ()
    environment: tuple[Figure, ...] = ()
    classes: Classes | None = None
