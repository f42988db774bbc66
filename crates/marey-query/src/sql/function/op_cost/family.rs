//! What operators are there, and where their shapes stand.

/// Operators that cost alike, and where their arguments stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Family {
    /// Of the argument at `first` with the next one; what is before is added to it.
    Product {
        first: usize,
    },
    /// Of rows with the transpose of a matrix.
    Linear,
    Convolution(Places),
    /// As `convolution_backward`: both gradients, as asked for.
    ConvolutionBackward,
    /// One of them, as before `PyTorch` 1.11: its size is the first argument, the gradient of the
    /// output the second.
    InputGradient,
    WeightGradient,
    /// Of the queries at `first`, and the keys and values behind it.
    Attention {
        layout: Layout,
        first: usize,
        lengths: usize,
    },
    AttentionBackward {
        layout: Layout,
        first: usize,
        lengths: usize,
    },
    /// From the second argument to the first one.
    Copy,
    /// Of the arguments before `inputs`, each element of the result from one of each.
    Elementwise {
        inputs: usize,
    },
    /// All elements of the first argument become few.
    Reduction,
    /// As many elements come out as the first argument has.
    Rows,
}

/// Where the numbers of a convolution stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Places {
    pub(super) stride: usize,
    pub(super) padding: usize,
    pub(super) dilation: Option<usize>,
    pub(super) transposed: Transposed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Transposed {
    Never,
    Always {
        output_padding: usize,
    },
    /// As the flag at this place says, with the padding of the output behind it.
    Flag(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Layout {
    /// `[batch, heads, length, size]`
    HeadsFirst,
    /// `[batch, length, heads, size]`, or `[length of all, heads, size]` with the places where
    /// sequences begin.
    LengthFirst,
}

/// There is none: an attention whose sequences are equally long.
const NO_LENGTHS: usize = usize::MAX;

impl Family {
    pub(super) fn of(operator: &str) -> Option<Self> {
        let name = operator.strip_prefix("aten::")?;
        // What works in place costs the same.
        let plain = match name.strip_suffix('_') {
            Some(plain) if !plain.ends_with('_') => plain,
            _ => name,
        };
        let convolution = |padding, stride, dilation| {
            let transposed = Transposed::Never;
            Some(Self::Convolution(Places { stride, padding, dilation, transposed }))
        };
        let attention = |layout, lengths| Some(Self::Attention { layout, first: 0, lengths });
        let backward =
            |layout, lengths| Some(Self::AttentionBackward { layout, first: 1, lengths });
        match plain {
            "mm" | "bmm" | "mv" | "dot" | "vdot" | "matmul" | "_int_mm" | "_scaled_mm" => {
                Some(Self::Product { first: 0 })
            }
            "addmm" | "baddbmm" | "addbmm" | "addmv" | "_addmm_activation" => {
                Some(Self::Product { first: 1 })
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
                let places = Places { stride: 3, padding: 4, dilation: Some(5), transposed };
                Some(Self::Convolution(places))
            }
            "cudnn_convolution_transpose" => {
                let transposed = Transposed::Always { output_padding: 3 };
                let places = Places { stride: 4, padding: 2, dilation: Some(5), transposed };
                Some(Self::Convolution(places))
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
                attention(Layout::HeadsFirst, NO_LENGTHS)
            }
            "_flash_attention_forward" => attention(Layout::LengthFirst, 3),
            "_efficient_attention_forward" => attention(Layout::LengthFirst, 4),
            "_scaled_dot_product_flash_attention_backward"
            | "_scaled_dot_product_efficient_attention_backward"
            | "_scaled_dot_product_cudnn_attention_backward"
            | "_scaled_dot_product_fused_attention_overrideable_backward"
            | "_scaled_dot_product_flash_attention_for_cpu_backward" => {
                backward(Layout::HeadsFirst, NO_LENGTHS)
            }
            "_flash_attention_backward" | "_efficient_attention_backward" => {
                backward(Layout::LengthFirst, 6)
            }
            "copy" => Some(Self::Copy),
            "add" | "sub" | "rsub" | "mul" | "div" | "pow" | "maximum" | "minimum"
            | "tanh_backward" | "sigmoid_backward" | "threshold_backward" | "gelu_backward"
            | "silu_backward" => Some(Self::Elementwise { inputs: 2 }),
            "where" | "addcmul" | "addcdiv" | "lerp" => Some(Self::Elementwise { inputs: 3 }),
            "abs" | "neg" | "exp" | "log" | "sqrt" | "rsqrt" | "reciprocal" | "sigmoid"
            | "tanh" | "relu" | "gelu" | "silu" | "clamp" | "clamp_min" | "clamp_max"
            | "hardtanh" | "leaky_relu" | "sin" | "cos" => Some(Self::Elementwise { inputs: 1 }),
            "sum" | "mean" | "amax" | "amin" | "argmax" | "argmin" | "norm"
            | "linalg_vector_norm" => Some(Self::Reduction),
            "_softmax" | "_log_softmax" | "native_layer_norm" | "native_batch_norm"
            | "cudnn_batch_norm" | "native_group_norm" => Some(Self::Rows),
            _ => None,
        }
    }
}
