"""The Tengine graph of an ONNX model while it grows: one tensor per value, under the value's name.

    constants, in the order of the model | inputs | nodes, in the order of the model

as Tengine's converter puts them. What a node computes together with the one before it, such as the Relu
behind a Conv, has the name of the first, as there; what the converter would leave apart has that of the last,
which tables know for sure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import constant, first_free, label
from calib8.tmfile.graph import (
    CONST,
    INPUT,
    NCHW,
    NHWC,
    Graph,
    Node,
    Option,
    Tensor,
    copy_of,
    made_for,
    sums_of,
)

MADE_FROM_ONNX: Final = 3
"""What the converter writes as the format that a model came from."""

MOST_AXES: Final = 4
"""Of tensors that Tengine's kernels compute with."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Made:
    """What became of an ONNX graph.

    Attributes:
        graph: in Tengine's operators.
        tensors: value → tensor, of every value that has one.
        constants: tensor → the initializer that it was made of.
        new: constants that the ONNX graph does not have.
    """

    graph: Graph
    tensors: Mapping[str, str]
    constants: Mapping[str, str]
    new: frozenset[str]


@dataclass(frozen=True)
class _Step:
    """A node, tensors by name."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Mapping[str, Option]


class Net:
    """Tensors and nodes so far.

    Attributes:
        graph: the ONNX graph: constants are initializers, shapes are known.
        names: value → name that its tensor gets in place of its own; None where only the model after its
            preparation is known, whose first names are taken for the converter's.
        coded: names of values that are rounded, so that no node may be computed together with the next.
        done: nodes that were computed together with earlier ones.
    """

    def __init__(
        self,
        graph: ir.Graph,
        names: Mapping[str, str] | None,
        coded: Collection[str],
        order: Sequence[str],
    ) -> None:
        """Starts with the inputs of ``graph``; constants come in an order, others behind."""
        self.graph, self.names, self.coded = graph, names, coded
        self.done: set[ir.Node] = set()
        self._steps: list[_Step] = []
        self._tensors: dict[str, Tensor] = {}
        known = dict.fromkeys((*order, *graph.initializers))
        self._places = {name: place for place, name in enumerate(known)}
        self._constants: dict[str, str] = {}
        self._inputs: list[str] = []
        self._stands: dict[ir.Value, str] = {}
        self._copies: dict[ir.Value, str] = {}
        self._new: set[str] = set()
        values = [*graph.inputs, *(value for node in graph for value in node.outputs)]
        self._taken = {value.name or "" for value in values} | set((names or {}).values())
        for value in graph.inputs:
            self._feed(value)

    def _feed(self, value: ir.Value) -> None:
        if value.dtype is not None and value.dtype != ir.DataType.FLOAT:
            raise NoFormError(
                f"the input '{value.name}' is {value.dtype.name.lower()}; Tengine's are float32"
            )
        name = value.name or ""
        self._tensors[name] = Tensor(name, self.shape(value), role="input")
        self._inputs.append(name)
        self._stands[value] = name

    def shape(self, value: ir.Value | None) -> tuple[int, ...]:
        """Sizes of a value; those of a number are (1,).

        Raises:
            NoFormError: it is left out, or its sizes are not known.
        """
        if value is None:
            raise NoFormError("an input is left out")
        shape = value.shape
        if shape is None or not shape.is_static():
            raise NoFormError(f"the sizes of '{value.name}' are not known")
        return tuple(int(size) for size in shape if isinstance(size, int)) or (1,)

    def image(self, value: ir.Value | None) -> tuple[int, int, int, int]:
        """Sizes of a value of four axes.

        Raises:
            NoFormError: it has not four.
        """
        shape = self.shape(value)
        if len(shape) != 4:
            raise NoFormError(f"its input has {len(shape)} axes; Tengine computes it on images, of 4")
        return shape[0], shape[1], shape[2], shape[3]

    def array(self, value: ir.Value | None) -> Array:
        """The elements of a constant.

        Raises:
            NoFormError: it is computed or left out.
        """
        found = constant(value)
        if found is None:
            name = "an input" if value is None else f"'{value.name}'"
            raise NoFormError(f"{name} is computed, where Tengine needs a constant")
        return found

    def floats(self, value: ir.Value | None) -> npt.NDArray[np.float32]:
        """The elements of a constant that is float32, likewise."""
        array = self.array(value)
        if array.dtype != np.float32:
            raise NoFormError(f"a constant of it is {array.dtype}, not float32")
        return array

    def read(self, value: ir.Value | None) -> str:
        """The tensor of a value.

        Raises:
            NoFormError: it holds no float32 numbers, or is left out.
        """
        if value is None:
            raise NoFormError("an input is left out")
        if value in self._stands:
            return self._stands[value]
        self._stands[value] = self.const(value, self.floats(value))
        return self._stands[value]

    def const(self, value: ir.Value, array: Array) -> str:
        """A constant made of an initializer, under its name where that is free."""
        base = self._named(value, value)
        array = np.ascontiguousarray(array).reshape(array.shape or (1,))
        known = self._tensors.get(base)
        if known is not None and known.data is not None and _are_equal(known.data, array):
            return base
        name = self._free(base)
        self._tensors[name] = Tensor(name, array.shape, array.dtype.name, "const", array)
        self._constants[name] = value.name or ""
        return name

    def new_const(self, base: str, data: npt.NDArray[np.float32]) -> str:
        """A constant that the model does not have; it comes behind those that it has."""
        name = self._free(base)
        self._tensors[name] = Tensor(name, data.shape, "float32", "const", data)
        self._constants[name] = name
        self._places[name] = len(self._places)
        self._new.add(name)
        return name

    def emit(self, base: str, shape: Sequence[int], op: str, inputs: Sequence[str], **options: Option) -> str:
        """A node on the way, and the tensor that it computes."""
        name = self._free(base)
        self._add(name, op, inputs, [(name, tuple(shape))], options)
        return name

    def emit_parts(self, base: str, tensor: str, axis: int, shapes: Sequence[Sequence[int]]) -> list[str]:
        """A tensor cut along an axis on the way, and its parts."""
        names = [self._free(base) for _ in shapes]
        named = [(name, tuple(shape)) for name, shape in zip(names, shapes, strict=True)]
        self._add(names[0], "Split", [tensor], named, split_options(axis, [shape[axis] for shape in shapes]))
        return names

    def write(self, node: ir.Node, op: str, inputs: Sequence[str], /, **options: Option) -> None:
        """The node that computes all outputs of an ONNX node."""
        self.write_as(node, op, inputs, None, options)

    def write_as(
        self,
        node: ir.Node,
        op: str,
        inputs: Sequence[str],
        result: ir.Value | None,
        options: Mapping[str, Option],
    ) -> None:
        """The node that computes all outputs of an ONNX node, or ``result`` in place of the first of them.

        The sizes are those of the outputs; for the names see the head of this file. Where both nodes were one
        of a tmfile, it is the tmfile's.
        """  # fmt: skip
        first = node.outputs[0].name
        before = result.producer() if result is not None and first == sums_of(result.name) else None
        outputs = [
            value for value in node.outputs if value.name and (value.uses() or value.is_graph_output())
        ]
        outputs = outputs or [node.outputs[0]]
        named = []
        for number, value in enumerate(outputs):
            last = result if result is not None and number == 0 else value
            name = self._named(last, last if before is not None else value)
            named.append((name, self.shape(last)))
            self._stands[value] = self._stands[last] = name
        self._add(label(before or node), op, inputs, named, options)

    def _free(self, base: str) -> str:
        """A name that no other tensor has or gets."""
        name = first_free(base, self._taken)
        self._taken.add(name)
        return name

    def _named(self, last: ir.Value, first: ir.Value) -> str:
        """The name of what nodes from the one that yields ``first`` to that of ``last`` compute together."""
        if self.names is None:
            return first.name or ""
        return self.names.get(last.name or "", last.name or "")

    def follows(self, value: ir.Value, tensor: str) -> None:
        """The value is what a tensor holds already."""
        self._stands[value] = tensor

    def _add(
        self, title: str, op: str, inputs: Sequence[str], outputs: Sequence[tuple[str, tuple[int, ...]]],
        options: Mapping[str, Option],
    ) -> None:  # fmt: skip
        first = self._tensors[inputs[0]].layout if op in ("Reshape", "Softmax") else NCHW
        layout = NHWC if op == "Flatten" else first
        for name, shape in outputs:
            if name in self._tensors:
                raise NoFormError(f"its result would be called '{name}', as another tensor is")
            self._tensors[name] = Tensor(name, shape, layout=layout)
        self._steps.append(_Step(title, op, tuple(inputs), tuple(name for name, _ in outputs), options))

    def finish(self) -> Made:
        """The graph, and which tensor stands for what.

        Raises:
            NoFormError: an output of the model that no node computes, or one of several of a node.
        """
        self._copy_read_outputs()
        constants = sorted(self._constants, key=lambda name: self._places[self._constants[name]])
        steps = [_Step(name, CONST, (), (name,), {}) for name in constants]
        steps += [_Step(name, INPUT, (), (name,), {}) for name in self._inputs]
        steps += self._steps
        order = [name for step in steps for name in step.outputs]
        place = {name: number for number, name in enumerate(order)}
        nodes = tuple(
            Node(step.name, step.op, tuple(place[name] for name in step.inputs),
                 tuple(place[name] for name in step.outputs), dict(step.options))
            for step in steps
        )  # fmt: skip
        graph = Graph(
            tuple(self._tensors[name] for name in order), nodes,
            inputs=tuple(range(len(constants), len(constants) + len(self._inputs))),
            outputs=self._output_nodes(steps), made_from=MADE_FROM_ONNX,
        )  # fmt: skip
        tensors = {value.name or "": name for value, name in self._stands.items()}
        return Made(graph, tensors, self._constants, frozenset(self._new))

    def _copy_read_outputs(self) -> None:
        """Outputs that nodes read become copies, as the last nodes.

        Tengine gives the memory of a tensor away when its last reader has run, though it be an output. A
        Concat of one tensor copies codes whatever their scales are.
        """
        read = {name for step in self._steps for name in step.inputs}
        for value in self.graph.outputs:
            name = self._stands.get(value, "")
            if name in read and name not in self._inputs and name not in self._constants:
                own = made_for(name)
                if own is not None and name == copy_of(own) and own not in self._taken:
                    name = self._rename(name, own)  # the copy of a tmfile was gone in between
                shape = self._tensors[name].shape
                self._copies[value] = self.emit(copy_of(name), shape, "Concat", [name], axis=0)

    def _rename(self, old: str, new: str) -> str:
        """Gives a tensor another name; returns it. The old one is free."""
        self._taken = (self._taken - {old}) | {new}
        self._tensors[new] = replace(self._tensors.pop(old), name=new)
        self._stands = {value: new if name == old else name for value, name in self._stands.items()}
        self._steps = [
            replace(
                step,
                inputs=tuple(new if name == old else name for name in step.inputs),
                outputs=tuple(new if name == old else name for name in step.outputs),
            )
            for step in self._steps
        ]
        return new

    def _output_nodes(self, steps: Sequence[_Step]) -> tuple[int, ...]:
        found = []
        for value in self.graph.outputs:
            tensor = self._copies.get(value, self._stands.get(value, ""))
            number = next((at for at, step in enumerate(steps) if tensor in step.outputs), -1)
            if number < 0 or steps[number].op in (CONST, INPUT):
                raise NoFormError(f"the output '{value.name}' is not computed")
            if len(steps[number].outputs) > 1 or number in found:
                raise NoFormError(f"the output '{value.name}' comes from a node that gives several")
            found.append(number)
        return tuple(found)


def split_options(axis: int, sizes: Sequence[int]) -> dict[str, Option]:
    """Of a Split into parts of these sizes."""
    return {
        "axis": axis,
        "split_dim": len(sizes),
        "is_caffe": False,
        "is_onnx": True,
        "split_sizes": tuple(sizes),
    }


def _are_equal(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other)
