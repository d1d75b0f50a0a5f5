"""Which tests are quick, and which ask for the instruction set that the environment chooses.

``conftest.py`` marks the tests of these files as ``quick`` and as ``isa``; where one of the marks is all
that is asked for (``pytest -m quick``, ``pytest -m "isa and not slow"``), no other file is imported.
``test_tiers.py`` holds that the files exist and that every room has quick ones.

A file is quick if all of it takes a few seconds on one core: no real network, no child process for every
test. A file asks for the chosen instruction set if what it tests counts values or runs a plan without
naming a set. Tests that name every set run all of them whatever the environment says (``bits.py``), and
what is computed from counts alone is the same on all sets, because the counts are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

# fmt: off
QUICK: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "architecture", "coded_array", "errors", "files", "fixedpoint", "number_texts", "package_data",
        "pipeline", "progress", "public_api", "qparams", "scheme", "table", "tiers",
    ),
    "analysis": ("benchmark", "chance", "compare", "equalizing", "evaluate", "tflite_caveats"),
    "autorange": ("sample_shares", "score"),
    "benchmarks": (
        "accuracy_tables", "calibration_tables", "qat_tables", "result_tables", "same_bits_tables",
    ),
    "c_library": ("header",),
    "calibration": (
        "choose", "collect", "decide", "given", "merge", "moving", "ranges_choice", "ranges_mse",
        "ranges_percentile", "without_bins",
    ),
    "cli": ("cli_auto", "cli_happy", "cli_table", "next_command", "repairs_told", "tengine_options"),
    "conformance": ("onnx_rewrites",),
    "data": (
        "batches", "data_mistakes", "digests", "geometry", "labels", "preflight", "preprocess", "presets",
        "rearranged", "samples", "samples_arrays", "samples_iterables", "shards", "sound",
        "trail", "units", "wav",
    ),
    "delivery": ("delivered",),
    "demo": ("assets",),
    "dissection": ("batch_axis", "code_readers"),
    "distributed": ("cluster_units", "parts"),
    "docs": ("pages",),
    "engine": ("arena", "compose", "fuse", "layout", "native_engine", "scalars", "softmax", "steps"),
    "exporting": ("qoperator",),
    "faults": ("refused",),
    "formats": ("table_ncnn", "table_tensorrt", "tables"),
    "model": ("error_names", "graph", "layer", "metadata", "runtime", "save", "taps"),
    "ops": ("ops_table", "written_once"),
    "onnxruntime_ep": ("provider_package",),
    "passes": (
        "absorb_bias", "fold_affine", "given_ranges", "layer_channels", "no_ops", "node_names", "place",
        "norm_chains", "place_norms", "resolve_ranges", "row_chains", "simplify", "unlimit",
    ),
    "program": (
        "expressions", "integer_only", "listing", "reference_moves", "rounding_group_norm",
        "rounding_layer_norm", "rounding_pools", "rounding_softmax", "verify",
        "lower/canonical/canonical_constants",
        "lower/canonical/canonical_layers", "lower/canonical/canonical_moves",
        "lower/canonical/canonical_quantizers",
        "lower/canonical/canonical_shapes", "lower/lower_borders", "lower/lower_layers",
        "lower/lower_like_onnxruntime",
    ),
    "quantization": ("corrections", "insert", "insert_one_layer", "spot_ranges", "weights"),
    "repair": ("channel_extremes", "channel_noise", "cross_layer", "layer_windows", "refit", "unit_order"),
    "report": ("curves",),
    "run_report": (
        "drawn_samples", "network", "network_layout", "page_facts", "report_page", "tensor_charts",
    ),
    "session": ("session",),
    "tasks": (
        "boxes", "characters", "figures", "judged", "meaning", "named", "objects", "task_verdicts",
        "told_outputs", "verdict",
    ),
    "tflite_models": ("check_tflite", "litert_factors"),
    "tmfile": ("inspect_tmfile", "tmfile_bytes"),
    "tracking": ("destinations",),
    "training": ("learned_scales", "out_of_place"),
    "tuning": ("costs", "promise", "recipes", "search", "split"),
    "viewer": ("pair_of_reports", "reports_listed", "viewer_place"),
}
"""Folder → its quick files."""

ISA: Final[Mapping[str, tuple[str, ...]]] = {
    "analysis": ("environment",),
    "calibration": (
        "collect", "functions_behind", "gather", "histogram_kernels", "kept_runs", "layouts", "merge",
        "merge_origins", "moving", "parts_of_real_data", "statistics", "taps_in_graph", "taps_on_blocks",
        "two_pass", "two_pass_real_model", "without_bins",
    ),
    "cli": (
        "cli_benchmark", "cli_checkpoint", "cli_compile", "cli_export", "cli_happy", "cli_process",
        "cli_program", "cli_statistics", "cli_tflite", "cli_two_pass",
    ),
    "engine": (
        "isas", "native_engine", "one_hash", "peak", "plan_file", "plan_mutations", "plan_sessions",
        "scalars", "threads",
    ),
    "repair": ("second_order_kernels", "second_order_rounding"),
    "c_library": ("c_library", "plan_reader"),
    "delivery": ("epcontext",),
    "session": (
        "bound_runs", "bound_streams", "forks", "four_and_sixteen_bits", "kept_plans", "session",
        "session_engine", "session_pixels", "streams", "tflite_sessions",
    ),
    "tflite_models": ("real_models_tflite", "svdf", "variables"),
    "tuning": ("tune_in_the_engine",),
}
"""Folder → its files that ask for the chosen set."""
# fmt: on

TIERS: Final = {"quick": QUICK, "isa": ISA}
"""By marker."""

WITHOUT: Final = {"examples"}
"""Folders without a quick file: they train whole networks."""


def files(tier: str) -> set[str]:
    """Paths of its files, relative to the folder of tests."""
    return {
        (PurePath(folder, *parts) / f"test_{name}.py").as_posix()
        for folder, stems in TIERS[tier].items()
        for *parts, name in (stem.split("/") for stem in stems)
    }


def left_out(path: str, expression: str) -> bool:
    """Whether a file of tests need not be imported for what pytest was given with -m."""
    tier = expression.removesuffix(" and not slow")
    return tier in TIERS and path.endswith(".py") and path not in files(tier)
