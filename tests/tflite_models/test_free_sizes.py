"""Models with free sizes, bit for bit as LiteRT's reference kernels have them with inputs resized."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from cases_arith import CASES as ARITH
from cases_arith import CASES_OF as ARITH_OF
from cases_moves import CASES_OF as MOVES_OF
from cases_sizes import FREE_NETS, freed
from litert import RESOLVERS
from litert import litert as runtime
from single_op import CASES, random_codes

from calib8 import InferenceSession
from calib8.tflite.results import result_shapes
from calib8.tflite.write import serialize

SIZES = ((1, 12, 16, 3), (1, 9, 7, 3), (2, 14, 11, 3))


def litert_outputs(model: bytes, image: npt.NDArray[np.generic]) -> list[npt.NDArray[np.generic]]:
    """The reference kernels for an image of any size."""
    runner = runtime.Interpreter(
        model_content=model, experimental_op_resolver_type=RESOLVERS["reference"], num_threads=1
    )
    [port] = runner.get_input_details()
    runner.resize_tensor_input(port["index"], image.shape, strict=True)
    runner.allocate_tensors()
    runner.set_tensor(port["index"], image)
    runner.invoke()
    return [np.array(runner.get_tensor(detail["index"])) for detail in runner.get_output_details()]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("net", FREE_NETS)
def test_any_size_gives_the_same_bits(net: str, dtype: str) -> None:
    for seed in range(max(2, CASES // 6)):
        rng = np.random.default_rng(seed)
        graph = freed(FREE_NETS[net](rng, dtype))
        model, name = serialize(graph), graph.tensors[graph.inputs[0]].name
        open_session = InferenceSession(model)
        for sizes in SIZES:
            image = random_codes(rng, sizes, dtype)
            wanted = litert_outputs(model, image)
            sessions = [
                open_session,
                *(
                    InferenceSession(model, runtime=way, shapes={name: sizes})
                    for way in ("calib8", "reference")
                ),
            ]
            for session in sessions:
                for got, expected in zip(session.run(None, {name: image}), wanted, strict=True):
                    np.testing.assert_array_equal(got, expected, err_msg=f"{net} {sizes}")


@pytest.mark.parametrize("op", sorted({op for op, _ in ARITH} | set(MOVES_OF)))
def test_the_shape_of_every_operator(op: str) -> None:
    """Random models of one operator, of which other tests compare the results with LiteRT's."""
    for seed in range(CASES):
        graph = (ARITH_OF.get(op) or MOVES_OF[op])(np.random.default_rng(seed), "int8")
        for operator in graph.operators:
            expected = [graph.tensors[place].shape for place in operator.outputs]
            assert result_shapes(graph, operator) == expected, operator
