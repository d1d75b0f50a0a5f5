"""``calib8 inspect``: what its guards found, and what data show of a model, for people and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from calib8.cli.documents import finite
from calib8.cli.headings import DATA, option
from calib8.cli.options import OptionalDataOption, PreprocessOptions, ReadingOptions
from calib8.cli.preprocessing import given_flags
from calib8.cli.render import plain_table
from calib8.cli.steps import reading_options, refuse_together
from calib8.cli.terminal import Terminal
from calib8.number_texts import NOTHING, count, percent_cell

if TYPE_CHECKING:
    from calib8.analysis.batch_norms import BatchNormInspection
    from calib8.analysis.inspect import ModelInspection
    from calib8.analysis.observed import Observation
    from calib8.analysis.pair_saturation import LayerPairs, UnsafeChannel
    from calib8.analysis.sum_margins import SumMargin

_SHOWN: Final = 5

_AVX2_HELP: Final = (
    "Show which layers of a quantized model ONNX Runtime computes wrongly on x86 without VNNI; with --data "
    "also how often."
)


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    """What else to look at; None: not given."""

    data: OptionalDataOption = None
    avx2_safety: Annotated[bool, option(DATA, "--avx2-safety", None, _AVX2_HELP)] = False


def check_guards(guards: GuardOptions, reading: ReadingOptions, preprocessing: PreprocessOptions) -> None:
    """Refuses options of data without data.

    Raises:
        UsageError: one is given.
    """
    if guards.data is None:
        given: dict[str, object] = {
            **reading_options(reading, None),
            "std": preprocessing.std,
            "units": preprocessing.units,
            **given_flags(preprocessing),
        }
        named = {name if name.startswith("--") else f"--{name}": value for name, value in given.items()}
        named["--preprocess"] = preprocessing.preprocess
        refuse_together("no --data", named, "Give --data too")


def say_guards(terminal: Terminal, found: ModelInspection) -> None:
    """The least room of the int32 sums, and channels that are dead."""
    if found.margins:
        worst = min(found.margins, key=lambda margin: margin.bits)
        terminal.say(
            f"int32 sums: at least {worst.bits:.1f} bits of room (layer '{worst.layer}', channel "
            f"{worst.channel}: {worst.low:,} … {worst.high:,})"
        )
    for layer, channels in list(found.dead_channels.items())[:_SHOWN]:
        shown = ", ".join(map(str, channels[:_SHOWN])) + (" …" if len(channels) > _SHOWN else "")
        terminal.say(f"note: {count(len(channels), 'channel')} of '{layer}' have only zeros ({shown})")
    if len(found.dead_channels) > _SHOWN:
        terminal.say(f"note: and {len(found.dead_channels) - _SHOWN} more layers with such channels")


def say_observation(terminal: Terminal, seen: Observation) -> None:
    """Worst saturation, normalizations adrift, and pairs that saturate."""
    if seen.tensors:
        _say_saturated(terminal, seen)
    if seen.batch_norms:
        _say_drift(terminal, seen)
    if seen.pairs is not None:
        _say_pairs(terminal, seen.pairs, with_data=seen.samples > 0)


def _say_saturated(terminal: Terminal, seen: Observation) -> None:
    cut = [tensor for tensor in seen.tensors if tensor.saturated > 0.0]
    if cut:
        table = plain_table("tensor")
        for header in ("saturated %", "observed", "representable"):
            table.add_column(header, justify="right")
        for tensor in cut[:_SHOWN]:
            bounds = (f"{low:.4g} … {high:.4g}" for low, high in (tensor.observed, tensor.representable))
            table.add_row(tensor.tensor, f"{100 * tensor.saturated:.3f}", *bounds)
        terminal.show(table)
    terminal.say(
        f"{len(cut):,} of {count(len(seen.tensors), 'quantized tensor')} saturate on "
        f"{count(seen.samples, 'sample')}"
    )


def _say_drift(terminal: Terminal, seen: Observation) -> None:
    table = plain_table("normalization")
    for header in ("shift", "spread", "largest shift", "of channel"):
        table.add_column(header, justify="right")
    wrong = {drift.name for drift in seen.wrong}
    for drift in sorted(seen.batch_norms, key=lambda one: (one.name not in wrong, -one.shift))[:_SHOWN]:
        table.add_row(
            drift.name, f"{drift.shift:.2f}", f"{drift.ratio:.2f}", f"{drift.largest_shift:.2f}",
            str(drift.channel),
        )  # fmt: skip
    terminal.show(table)
    adrift = [drift for drift in seen.batch_norms if drift.suspicious]
    terminal.say(
        f"{len(adrift):,} of {count(len(seen.batch_norms), 'normalization')} see other values than in "
        f"training, on {count(seen.samples, 'sample')}"
    )
    if seen.batch_norms[0].suspicious:
        terminal.say(
            f"warning: {seen.batch_norms[0].name}: the first normalization already does: mean or scale of "
            "the images are probably not those of the training",
            style="yellow",
        )
    if seen.wrong:
        more = f" and {len(seen.wrong) - _SHOWN} more" if len(seen.wrong) > _SHOWN else ""
        terminal.say(
            f"warning: {', '.join(drift.name for drift in seen.wrong[:_SHOWN])}{more}: does not fit what "
            "reaches it, even with all before it put right: its mean or variance is probably not that of the "
            "training",
            style="yellow",
        )


def _say_pairs(terminal: Terminal, pairs: tuple[LayerPairs, ...], *, with_data: bool) -> None:
    unsafe = [layer for layer in pairs if layer.unsafe]
    table = plain_table("layer")
    for header in ("channels", "can saturate", "worst weights", "worst sum", "observed", "saturated %"):
        table.add_column(header, justify="right")
    for layer in unsafe:
        table.add_row(layer.layer, str(layer.channels), str(len(layer.unsafe)), *_worst(layer))
    if unsafe:
        terminal.show(table)
    total, bad = sum(layer.channels for layer in pairs), sum(len(layer.unsafe) for layer in pairs)
    terminal.say(
        f"{bad:,} of {count(total, 'channel')} in {len(unsafe):,} of {count(len(pairs), 'layer')} can "
        "saturate in ONNX Runtime on x86 without VNNI"
    )
    if with_data and bad:
        seen = sum(bool(channel.saturated) for layer in unsafe for channel in layer.unsafe)
        terminal.say(f"{seen} of them did on these samples")
    if bad:
        terminal.say("'calib8 quantize --target onnxruntime-avx2' makes a model without such channels")


def _worst(layer: LayerPairs) -> tuple[str, str, str, str]:
    """Weights and sum of the worst channel; what was seen over all channels."""
    worst = max(layer.unsafe, key=lambda channel: max(channel.high, -channel.low))
    largest = worst.high if worst.high >= -worst.low else worst.low
    ends = [channel.observed for channel in layer.unsafe if channel.observed is not None]
    seen = NOTHING if not ends else f"{min(low for low, _ in ends):,} … {max(high for _, high in ends):,}"
    shares = [channel.saturated for channel in layer.unsafe if channel.saturated is not None]
    share = percent_cell(sum(shares) / len(shares)) if shares else NOTHING
    return f"{worst.weights[0]}, {worst.weights[1]}", f"{largest:,}", seen, share


def guards_document(found: ModelInspection, seen: Observation | None) -> dict[str, Any]:
    """Fields for machines; null where something does not apply or was not asked for."""
    tensors = None if seen is None or not seen.tensors else seen.tensors
    drifts = None if seen is None or not seen.batch_norms else seen.batch_norms
    pairs = None if seen is None or seen.pairs is None else seen.pairs
    return {
        "batch_norms": [_batch_norm(norm) for norm in found.batch_norms] or None,
        "sums": [_margin(margin) for margin in found.margins] or None,
        "dead_channels": {layer: list(channels) for layer, channels in found.dead_channels.items()},
        "samples": None if seen is None else seen.samples,
        "saturation": None if tensors is None else [
            {"tensor": t.tensor, "saturated": t.saturated, "values": t.values,
             "observed": [finite(bound) for bound in t.observed], "representable": list(t.representable)}
            for t in tensors
        ],
        "drift": None if drifts is None else [
            {"name": d.name, "shift": finite(d.shift), "spread": finite(d.ratio), "channel": d.channel,
             "largest_shift": finite(d.largest_shift), "suspicious": d.suspicious}
            for d in drifts
        ],
        "pairs": None if pairs is None else [
            {"layer": layer.layer, "channels": layer.channels, "pairs": layer.pairs,
             "unsafe": [_unsafe(channel) for channel in layer.unsafe]}
            for layer in pairs
        ],
    }  # fmt: skip


def _batch_norm(norm: BatchNormInspection) -> dict[str, Any]:
    return {
        "name": norm.name,
        "k": [finite(norm.k_min), finite(norm.k_max)],
        "shift": [finite(norm.shift_min), finite(norm.shift_max)],
        "channel": norm.channel,
        "gamma": finite(norm.gamma),
        "variance": finite(norm.variance),
        "mean": finite(norm.mean),
        "ratio": finite(norm.ratio),
        "constant_channels": list(norm.constant_channels),
        "suspicious": norm.suspicious,
    }


def _margin(margin: SumMargin) -> dict[str, Any]:
    return {
        "layer": margin.layer,
        "channel": margin.channel,
        "low": margin.low,
        "high": margin.high,
        "bias": margin.bias,
        "bits": finite(margin.bits),
        "overflows": margin.overflows,
        "cut_biases": list(margin.cut_biases),
    }


def _unsafe(channel: UnsafeChannel) -> dict[str, Any]:
    return {
        "channel": channel.channel,
        "pair": channel.pair,
        "weights": list(channel.weights),
        "low": channel.low,
        "high": channel.high,
        "observed": None if channel.observed is None else list(channel.observed),
        "saturated": channel.saturated,
    }
