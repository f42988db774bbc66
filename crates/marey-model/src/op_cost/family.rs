//! The known operators, grouped by how their cost follows from the arguments.

/// A family of operators with the same cost formula, and the positions of their arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OperatorFamily {
    /// The matrix product of the arguments at `first_position` and after it; arguments before it
    /// are added.
    MatrixProduct {
        first_position: usize,
    },
    /// The product of rows with the transpose of a matrix.
    Linear,
    Convolution(ConvolutionPositions),
    /// `convolution_backward`: both gradients, as far as they are requested.
    ConvolutionBackward,
    /// One gradient of a convolution, as before `PyTorch` 1.11: the first argument is the size of
    /// the result, the second the gradient of the output.
    InputGradient,
    WeightGradient,
    /// The attention of the queries at `first_position`, and the keys and values after them.
    Attention {
        axis_order: AxisOrder,
        first_position: usize,
        lengths_position: usize,
    },
    AttentionBackward {
        axis_order: AxisOrder,
        first_position: usize,
        lengths_position: usize,
    },
    /// A copy from the second argument to the first.
    Copy,
    /// Each element of the result comes from one element of each of the first `input_count`
    /// arguments.
    Elementwise {
        input_count: usize,
    },
    /// The elements of the first argument are reduced to few.
    Reduction,
    /// Softmax or a norm: the result has as many elements as the first argument.
    Normalization,
}

/// The positions of a convolution's arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ConvolutionPositions {
    pub(super) stride: usize,
    pub(super) padding: usize,
    pub(super) dilation: Option<usize>,
    pub(super) transposed: Transposed,
}

/// Whether a convolution is transposed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Transposed {
    Never,
    Always {
        output_padding: usize,
    },
    /// Determined by the flag at this position; the output padding comes after it.
    Flag(usize),
}

/// The order of the axes of the queries, keys and values of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AxisOrder {
    /// `[batch, heads, length, size]`
    HeadsFirst,
    /// `[batch, length, heads, size]`, or `[total length, heads, size]` with the cumulative lengths
    /// of the sequences.
    LengthFirst,
}

/// The position of the lengths in attentions that have none: all sequences are equally long.
const NO_LENGTHS: usize = usize::MAX;

impl OperatorFamily {
    pub(super) fn from_operator(operator: &str) -> Option<Self> {
        let name = operator.strip_prefix("aten::")?;
        // An overload differs in types, or has its result as a last argument.
        let name = name.split_once('.').map_or(name, |(name, _overload)| name);
        // In-place variants cost the same.
        let plain = name.strip_suffix('_').unwrap_or(name);
        let convolution = |padding, stride, dilation| {
            let transposed = Transposed::Never;
            Some(Self::Convolution(ConvolutionPositions { stride, padding, dilation, transposed }))
        };
        let attention = |axis_order, lengths_position| {
            Some(Self::Attention { axis_order, first_position: 0, lengths_position })
        };
        let backward = |axis_order, lengths_position| {
            Some(Self::AttentionBackward { axis_order, first_position: 1, lengths_position })
        };
        match plain {
            "mm" | "bmm" | "mv" | "dot" | "vdot" | "matmul" | "_int_mm" | "_scaled_mm" => {
                Some(Self::MatrixProduct { first_position: 0 })
            }
            "addmm" | "baddbmm" | "addbmm" | "addmv" | "_addmm_activation" => {
                Some(Self::MatrixProduct { first_position: 1 })
            }
            "linear" => Some(Self::Linear),
            "conv1d" | "conv2d" | "conv3d" | "cudnn_convolution_relu" => convolution(4, 3, Some(5)),
            "cudnn_convolution_add_relu" => convolution(6, 5, Some(7)),
            "_slow_conv2d_forward" | "thnn_conv2d" | "slow_conv3d_forward" => {
                convolution(5, 4, None)
            }
            "_conv_depthwise2d"
            | "conv_depthwise3d"
            | "slow_conv_dilated2d"
            | "slow_conv_dilated3d" => convolution(5, 4, Some(6)),
            "cudnn_convolution" => convolution(2, 3, Some(4)),
            "miopen_convolution" | "miopen_depthwise_convolution" | "mkldnn_convolution" => {
                convolution(3, 4, Some(5))
            }
            "convolution" | "_convolution" | "convolution_overrideable" => {
                let transposed = Transposed::Flag(6);
                let positions =
                    ConvolutionPositions { stride: 3, padding: 4, dilation: Some(5), transposed };
                Some(Self::Convolution(positions))
            }
            "cudnn_convolution_transpose" => {
                let transposed = Transposed::Always { output_padding: 3 };
                let positions =
                    ConvolutionPositions { stride: 4, padding: 2, dilation: Some(5), transposed };
                Some(Self::Convolution(positions))
            }
            "convolution_backward" | "convolution_backward_overrideable" => {
                Some(Self::ConvolutionBackward)
            }
            "cudnn_convolution_backward_input" | "miopen_convolution_backward_input" => {
                Some(Self::InputGradient)
            }
            "cudnn_convolution_backward_weight" | "miopen_convolution_backward_weight" => {
                Some(Self::WeightGradient)
            }
            "scaled_dot_product_attention"
            | "_scaled_dot_product_flash_attention"
            | "_scaled_dot_product_efficient_attention"
            | "_scaled_dot_product_cudnn_attention"
            | "_scaled_dot_product_fused_attention_overrideable"
            | "_scaled_dot_product_flash_attention_for_cpu" => {
                attention(AxisOrder::HeadsFirst, NO_LENGTHS)
            }
            "_flash_attention_forward" => attention(AxisOrder::LengthFirst, 3),
            "_efficient_attention_forward" => attention(AxisOrder::LengthFirst, 4),
            "_scaled_dot_product_flash_attention_backward"
            | "_scaled_dot_product_efficient_attention_backward"
            | "_scaled_dot_product_cudnn_attention_backward"
            | "_scaled_dot_product_fused_attention_overrideable_backward"
            | "_scaled_dot_product_flash_attention_for_cpu_backward" => {
                backward(AxisOrder::HeadsFirst, NO_LENGTHS)
            }
            "_flash_attention_backward" | "_efficient_attention_backward" => {
                backward(AxisOrder::LengthFirst, 6)
            }
            "copy" => Some(Self::Copy),
            "add" | "sub" | "rsub" | "mul" | "div" | "pow" | "maximum" | "minimum"
            | "tanh_backward" | "sigmoid_backward" | "threshold_backward" | "gelu_backward"
            | "silu_backward" => Some(Self::Elementwise { input_count: 2 }),
            "where" | "addcmul" | "addcdiv" | "lerp" => Some(Self::Elementwise { input_count: 3 }),
            "abs" | "neg" | "exp" | "log" | "sqrt" | "rsqrt" | "reciprocal" | "sigmoid"
            | "tanh" | "relu" | "gelu" | "silu" | "clamp" | "clamp_min" | "clamp_max"
            | "hardtanh" | "leaky_relu" | "sin" | "cos" => {
                Some(Self::Elementwise { input_count: 1 })
            }
            "sum" | "mean" | "amax" | "amin" | "argmax" | "argmin" | "norm"
            | "linalg_vector_norm" => Some(Self::Reduction),
            "_softmax" | "_log_softmax" | "native_layer_norm" | "native_batch_norm"
            | "cudnn_batch_norm" | "native_group_norm" => Some(Self::Normalization),
            _ => None,
        }
    }
}
