"""The instructions of the integer program, a family per module.

A family says of each of its instructions what it is (a frozen dataclass over numbered slots), what its slots
may hold, which shape its output has, what its sums may reach, how many multiplications it takes, and what it
computes, in NumPy. ``calib8.program.instructions`` lists all of them.

    borders          between float32 and codes
    conv             convolutions and fully connected layers
    depthwise        one filter per channel
    conv_transpose   transposed convolutions
    mat_mul          the product of two activations
    elementwise      sums, products, the larger and the smaller code, tables, sums to codes
    pools            windows and whole axes
    layer_norm       rows with mean 0 and spread 1
    group_norm       groups of channels with mean 0 and spread 1 over an image
    recurrent        LSTM, GRU and RNN; cells has their steps, cell_functions what is in them
    integer_lstm     an LSTM without floats; integer_cells has its steps, sixteen_bit_functions its curves
    real_function    a function of float32 values
    time_filter      sums over what filters gave lately
    softmax, resize  as they say
    moves            codes moved, not changed
    constant         codes that never change
    floats           nodes that ONNX Runtime runs

    instruction, step, operand       what an instruction has; with its slots; while it runs
    kinds, shapes, windows, reach    what the families share, by question
    weighted, rescale                layers with weights; sums to codes
    traits                           the answers of one instruction
"""
