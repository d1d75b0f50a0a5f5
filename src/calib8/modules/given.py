"""A torch module in place of a model: exported once, as a ModelProto or as a file that lives for one call.

Torch is not imported here: where nobody has imported it, nothing can be a module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar, cast, overload

from calib8.errors import Calib8Error, UsageError
from calib8.parameters import Text, with_both

if TYPE_CHECKING:  # who gives files does without the library of models
    import onnx

    from calib8.model.load import ModelSource

Kind = TypeVar("Kind", bound=Calib8Error)
FilePath = str | os.PathLike[str]


class Module(Protocol):
    """A ``torch.nn.Module``, named without importing torch."""

    training: bool

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Names and parameters."""


def is_module(value: object) -> TypeGuard[Module]:
    """Whether it is a torch module."""
    torch = sys.modules.get("torch")
    return isinstance(value, getattr(getattr(torch, "nn", None), "Module", ()))


@overload
def as_model(
    model: FilePath | onnx.ModelProto | Module, example_inputs: object
) -> FilePath | onnx.ModelProto: ...


@overload
def as_model(model: ModelSource | Module, example_inputs: object) -> ModelSource: ...


def as_model(model: ModelSource | Module, example_inputs: object) -> ModelSource:
    """A torch module as the ONNX model that it is exported as; anything else as it stands.

    Raises:
        UsageError: a module without example inputs, or example inputs without a module.
        Calib8Error: what ``calib8.modules.export.export_module`` raises.
    """
    if is_module(model):
        return _exported(model, example_inputs)
    refuse_unused(example_inputs)
    return cast("ModelSource", model)


def refuse_unused(example_inputs: object) -> None:
    """Refuses example inputs where no module is given.

    Raises:
        UsageError: there are some.
    """
    if example_inputs is not None:
        raise UsageError("example_inputs", "are for torch modules only", "Leave them out")


def refuse_module(model: object, wanted: str) -> None:
    """Refuses a torch module where only a quantized model will do.

    Args:
        model: what was given.
        wanted: the name of the parameter.

    Raises:
        UsageError: it is a module.
    """
    if is_module(model):
        cure = "Give the path that calib8.quantize(module, data, example_inputs=…).save(path) has written"
        raise UsageError(wanted, f"is a torch module ({type(model).__name__}), which is not quantized", cure)


def _exported(module: Module, example_inputs: object) -> onnx.ModelProto:
    if example_inputs is None:
        problem = "is a torch module, and example_inputs were not given"
        cure = "Add example_inputs=images[:2], a batch as its forward takes it"
        raise UsageError(type(module).__name__, problem, cure)
    from calib8.modules.export import export_module  # imports torch

    return export_module(module, example_inputs)  # type: ignore[arg-type, unused-ignore]


@dataclass(frozen=True)
class ModelFiles:
    """Models as files.

    Attributes:
        paths: one per model.
        names: path of a file made here → what to call it: the class of a module, or the path of the model.
    """

    paths: tuple[FilePath, ...]
    names: dict[str, str]

    def named(self, text: str) -> str:
        """A text with the names of modules in place of the paths of their files."""
        told = with_both(text)
        for path, name in self.names.items():
            told = told.replace(path, name)
        return Text(told) if isinstance(text, Text) else told

    def named_error(self, error: Kind) -> Kind:
        """The error, about modules where it was about their files."""
        return type(error)(*map(self.named, (error.subject, error.problem, error.cure)))


@contextmanager
def as_files(
    models: Sequence[FilePath | Module], example_inputs: object, fix: Mapping[str, Any] | None = None
) -> Iterator[ModelFiles]:
    """The models as files; those of torch modules are gone after the block, and its errors name the modules.

    Args:
        models: paths, which stay as they are, and torch modules.
        example_inputs: for all modules: a tensor or a tuple of them as forward takes them.
        fix: values of inputs, see ``calib8.model.fix_inputs``; a model with such inputs becomes a file
            without them, which is gone after the block too.

    Raises:
        UsageError: a module without example inputs, or example inputs without a module; an input to fix that
            no model has.
        Calib8Error: what ``calib8.modules.export.export_module`` raises; a model that cannot be read.
    """
    if not any(map(is_module, models)):
        refuse_unused(example_inputs)
        if not fix:
            yield ModelFiles(tuple(models), {})  # type: ignore[arg-type]
            return
    with TemporaryDirectory(prefix="calib8-") as folder:
        files = _written(models, example_inputs, Path(folder) / "modules")
        files = _fixed(files, fix, Path(folder) / "fixed") if fix else files
        try:
            yield files
        except Calib8Error as error:
            raise files.named_error(error) from error


def _written(models: Sequence[FilePath | Module], example_inputs: object, folder: Path) -> ModelFiles:
    """Exports the modules, each into a folder of its own: classes may have the same name."""
    paths, names = list[FilePath](), dict[str, str]()
    for number, model in enumerate(models):
        if not is_module(model):
            paths.append(model)  # type: ignore[arg-type]
            continue
        called = type(model).__name__
        path = folder / str(number) / f"{called}.onnx"
        path.parent.mkdir(parents=True)
        path.write_bytes(_exported(model, example_inputs).SerializeToString())
        again = sum(name.split(" ")[0] == called for name in names.values())
        names[str(path)] = f"{called} ({again + 1})" if again else called
        paths.append(path)
    return ModelFiles(tuple(paths), names)


def _fixed(files: ModelFiles, fix: Mapping[str, Any], folder: Path) -> ModelFiles:
    """The same models with some inputs fixed."""
    from calib8.modules.fixed_files import fixed_files  # reads models

    fixed = fixed_files(files.paths, fix, folder)
    names = {str(new): files.names.get(str(old), str(old)) for old, new in fixed.items() if new != old}
    return ModelFiles(tuple(fixed[path] for path in files.paths), {**files.names, **names})
