"""Plans in an ONNX file: nodes ``EPContext``, which calib8's provider for ONNX Runtime runs.

    integer instructions  →  EPContext (a plan)        Float instruction  →  its nodes as they are

A program without Float instructions becomes one node. Others are cut before and behind them (``split``), and
``graph`` joins the parts by the names of their values.
"""
