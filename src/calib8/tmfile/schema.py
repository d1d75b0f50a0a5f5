"""Types and operators of version 2: numbers, names, and the fields of the table of options of each.

A field is a word of four bytes, ``bool`` is one byte, padded where a word follows; ``undefined`` is a word
that Tengine's writer never sets. A list or text is the offset of what holds it, 0 for none.
Source: Tengine's description of the format (OAID/Tengine, ``tm2_format.h``).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from calib8.tmfile.graph import Role

DTYPES: Final[Mapping[int, str]] = {
    0: "float32", 1: "float16", 2: "int8", 3: "uint8", 4: "int32", 5: "int16",
}  # fmt: skip
"""Type of a tensor → its NumPy name."""

DTYPE_CODES: Final[Mapping[str, int]] = {name: code for code, name in DTYPES.items()}

ROLES: Final[Mapping[int, Role]] = {1: "var", 2: "const", 3: "input", 4: "dep"}

ROLE_CODES: Final[Mapping[Role, int]] = {role: code for code, role in ROLES.items()}

OPERATOR_VERSION: Final = 1
"""Of every operator."""

LISTS: Final = frozenset({"ints", "floats", "anchors"})
"""Kinds of fields that are offsets of lists; an anchor is four floats."""

WORD: Final[Mapping[str, str]] = {
    "int": "i", "uint": "I", "float": "f", "bool": "B", "undefined": "4x",
    "ints": "I", "floats": "I", "anchors": "I", "text": "I",
}  # fmt: skip
"""Kind of a field → how ``struct`` writes it."""


@dataclass(frozen=True)
class Operator:
    """An operator of the format.

    Attributes:
        name: that messages and graphs call it by.
        codes: its numbers; the first is written.
        fields: (name, kind) of its options, in the order of the file; names of undefined words are empty.
    """

    name: str
    codes: tuple[int, ...]
    fields: tuple[tuple[str, str], ...]

    @cached_property
    def layout(self) -> struct.Struct:
        """Of the table of options, padding included."""
        text, place = "<", 0
        for _, kind in self.fields:
            if kind != "bool" and place % 4:
                text += f"{4 - place % 4}x"
                place += 4 - place % 4
            text += WORD[kind]
            place += 1 if kind == "bool" else 4
        return struct.Struct(text + f"{-place % 4}x")

    @cached_property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Fields that mean something."""
        return tuple(field for field in self.fields if field[1] != "undefined")


def _operator(codes: str, name: str, *fields: str) -> Operator:
    """An operator; fields as ``kind name name …``."""
    read = tuple((title, kind) for field in fields for kind, *titles in [field.split()] for title in titles)
    return Operator(name, tuple(map(int, codes.split())), read)


_RECURRENT: Final = "int output_len sequence_len input_size hidden_size"
_BLOCK: Final = "int dilation_x dilation_y top bottom left right"
_STEPS: Final = (
    "int begin_n end_n stride_n begin_c end_c stride_c begin_h end_h stride_h begin_w end_w stride_w"
)

_TABLE: Final = (
    _operator("0", "Accuracy"),
    _operator("1", "BatchNormalization", "float rescale_factor eps", "int caffe_flavor"),
    _operator("54 2", "Resize", "float scale_x scale_y", "int type"),
    _operator("3", "Concat", "int axis"),
    _operator("4", "Const"),
    _operator(
        "5", "Convolution",
        "int kernel_h kernel_w stride_h stride_w dilation_h dilation_w input_channel output_channel group",
        "int activation pad_h0 pad_w0 pad_h1 pad_w1",
    ),
    _operator(
        "6", "Deconvolution",
        "int num_output kernel_h kernel_w stride_h stride_w pad_w0 pad_h0 pad_w1 pad_h1 dilation_h",
        "int dilation_w group activation output_pad_h0 output_pad_w0",
    ),
    _operator("7", "DetectionOutput", "int num_classes keep_top_k nms_top_k", "float confidence nms"),
    _operator("8", "Dropout"),
    _operator("9", "Eltwise", "uint type", "int caffe_flavor", "undefined shift power scale"),
    _operator("10", "Flatten", "int axis end_axis"),
    _operator("11", "FullyConnected", "int num_output"),
    _operator("12", "InputOp"),
    _operator(
        "13", "LRN", "int local_size", "float alpha beta", "int region", "float k bias",
        "bool is_onnx",
    ),
    _operator("14", "Normalize", "int across_spatial channel_shared"),
    _operator("15", "Permute", "int flag order0 order1 order2 order3"),
    _operator(
        "16", "Pooling", "uint alg",
        "int kernel_h kernel_w stride_h stride_w global caffe_flavor pad_h0 pad_w0 pad_h1 pad_w1",
    ),
    _operator("17", "PReLU"),
    _operator(
        "18", "PriorBox", "floats min_size max_size variance aspect_ratio",
        "int flip clip img_size img_h img_w", "float step_w step_h offset", "int num_priors out_dim",
    ),
    _operator("19", "Region", "int num_classes side num_box coords", "float confidence nms", "floats biases"),
    _operator("20", "ReLU", "float negative_slope"),
    _operator("21", "ReLU6"),
    _operator("22", "Reorg", "int stride"),
    _operator("23", "Reshape", "int is_mxnet reverse", "ints shape", "int is_onnx"),
    _operator("24", "ROIPooling", "int pooled_h pooled_w", "float spatial_scale"),
    _operator(
        "25", "RPN", "floats ratios anchor_scales",
        "int feat_stride basesize min_size per_nms_topn post_nms_topn", "float nms", "anchors anchors",
    ),
    _operator("26", "Scale", "int axis num_axes bias_term"),
    _operator(
        "27", "Slice", "int axis", "ints slice_points begins sizes",
        "int is_caffe is_mxnet is_onnx begin end step",
    ),
    _operator("28", "Softmax", "int axis"),
    _operator("29", "Split", "int axis split_dim", "bool is_caffe is_onnx", "ints split_sizes"),
    _operator(
        "30", "DetectionPostProcess", "int max_detections max_classes", "float nms_score nms_iou",
        "int num_classes", "floats scales",
    ),
    _operator("31", "Gemm", "float alpha beta", "int trans_a trans_b"),
    _operator("32", "Generic", "int max_input_num max_output_num", "text op_name"),
    _operator("33", "Logistic"),
    _operator(
        "34", "LSTM", "float forget_bias clip", _RECURRENT,
        "int cell_size has_peephole has_projection has_clip has_bias has_init_state",
        "int forget_act input_act output_act cellin_act cellout_act mxnet_flag",
    ),
    _operator("35", "RNN", "float clip", _RECURRENT, "int has_clip has_bias has_init_state activation"),
    _operator("36", "Tanh"),
    _operator("37", "Sigmoid"),
    _operator("38", "Squeeze", "int dim_0 dim_1 dim_2 dim_3"),
    _operator("39", "FusedBNScaleRelu"),
    _operator("40", "Pad", "int n_0 n_1 c_0 c_1 h_0 h_1 w_0 w_1 mode", "float value"),
    _operator("41", "StridedSlice", _STEPS),
    _operator("42", "ArgMax", "int axis keepdims"),
    _operator("43", "ArgMin", "int axis keepdims"),
    _operator("44", "TopKV2", "int k sorted"),
    _operator("45", "Reduction", "int dim_0 dim_1 dim_2 dim_3 type keepdim"),
    _operator("46", "Maximum"),
    _operator("47", "Minimum"),
    _operator(
        "48", "GRU", "float clip", _RECURRENT,
        "int has_clip has_gate_bias has_candidate_bias has_init_state mxnet_flag",
    ),
    _operator("49", "AddN", "int axis"),
    _operator("50", "SwapAxis", "int dim_0 dim_1"),
    _operator("51", "Upsample", "float scale"),
    _operator("52", "SpaceToBatchND", _BLOCK),
    _operator("53", "BatchToSpaceND", _BLOCK),
    _operator("55", "ShuffleChannel", "int group"),
    _operator(
        "56", "Crop", "int num_args offset_c offset_h offset_w crop_h crop_w", "bool center_crop",
        "int axis flag",
    ),
    _operator("57", "ROIAlign", "int pooled_w pooled_h", "float spatial_scale"),
    _operator("58", "PSROIPooling", "int pooled_w pooled_h", "float spatial_scale", "int output_dim"),
    _operator("59", "Unary", "int type"),
    _operator("60", "ExpandDims", "int axis"),
    _operator("61", "Bias", "int bias_size"),
    _operator("62", "Noop"),
    _operator("63", "Threshold", "float threshold"),
    _operator("64", "HardSigmoid", "float alpha beta"),
    _operator("65", "Embedding", "int num_output input_dim bias_term weight_data_size"),
    _operator("66", "InstanceNorm", "float eps"),
    _operator("67", "MVN", "int across_channels normalize_variance", "float eps"),
    _operator("68", "Absval"),
    _operator("69", "Cast", "int type_from type_to"),
    _operator("70", "HardSwish", "float alpha beta"),
    _operator("71", "Interp", "int type", "float width_scale height_scale", "int output_w output_h"),
    _operator("72", "Selu", "float alpha lambda"),
    _operator("73", "Elu", "float alpha"),
    _operator("74", "BroadMul"),
    _operator("75", "Logical", "uint type"),
    _operator("76", "Gather", "int axis indices_num", "bool is_onnx"),
    _operator("77", "Transpose", "ints perm"),
    _operator("78", "Comparison", "int type"),
    _operator("79", "SpaceToDepth", "int block_size"),
    _operator("80", "DepthToSpace", "int block_size"),
    _operator("81", "Reverse"),
    _operator("82", "SparseToDense", "int size_0 size_1 default"),
    _operator("83", "Ceil"),
    _operator("84", "SquaredDifference"),
    _operator("85", "Round"),
    _operator("86", "ZerosLike"),
    _operator("87", "Clip", "float max min"),
    _operator("88", "Unsqueeze", "ints axes"),
    _operator("89", "ReduceL2", "int axis keepdim"),
    _operator("90", "Mean"),
    _operator("91", "MatMul"),
    _operator("92", "Expand", "ints shape", "int dim_num"),
    _operator("93", "Scatter", "int axis", "bool is_onnx"),
    _operator("94", "Shape"),
    _operator("95", "Where"),
    _operator("96", "Tile", "int frame_flag reps_size", "ints reps"),
    _operator("97", "Mish"),
    _operator("98", "L2Pool", "int padding_type kernel_h kernel_w stride_h stride_w"),
    _operator("99", "LogSoftmax", "int axis"),
    _operator("100", "ReLU1"),
    _operator("101", "L2Normalization"),
    _operator("102", "Softplus"),
    _operator("103", "Reciprocal"),
    _operator("105", "SpatialTransformer", "int sampler_type transformer_type shape_size", "ints shape"),
    _operator("106", "Gelu"),
    _operator("107", "LayerNorm", "float eps"),
)  # fmt: skip

OPERATORS: Final[Mapping[str, Operator]] = {operator.name: operator for operator in _TABLE}
"""By the name that graphs have."""

BY_CODE: Final[Mapping[int, Operator]] = {code: operator for operator in _TABLE for code in operator.codes}
"""By the number that files have."""
