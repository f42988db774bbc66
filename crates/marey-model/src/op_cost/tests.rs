//! Costs of operators, with shapes from real traces.

use proptest::prelude::*;

use super::{bytes, bytes_per_element, flops, flops_metric, needs_values, operand_bits};

/// The arguments of a span, as the profiler records them.
fn args(dims: &str, types: &str, concrete: &str) -> String {
    format!(
        r#"{{"Fwd thread id":0,"Input Dims":{dims},"Input type":{types},"Concrete Inputs":{concrete}}}"#
    )
}

/// FLOP and bytes of a call with `float` arguments.
fn cost(operator: &str, dims: &str, concrete: &str) -> (Option<f64>, Option<f64>) {
    let types = format!("[{}]", ["\"float\""; 12].join(", "));
    let args = args(dims, &types, concrete);
    (flops(operator, &args), bytes(operator, &args))
}

#[test]
fn matrix_products_have_flops_and_bytes() {
    let cases = [
        // Recorded on an A100 and an MI250.
        ("aten::mm", "[[98304, 50], [50, 15]]", 147_456_000.0, 25_562_040.0),
        ("aten::bmm", "[[1024, 96, 647], [1024, 647, 30]]", 3_816_161_280.0, 345_710_592.0),
        ("aten::addmm", "[[256], [1024, 1440], [1440, 256], [], []]", 754_974_720.0, 8_422_400.0),
        ("aten::linear", "[[5,128],[128,128],[128]]", 163_840.0, 71_168.0),
        ("aten::matmul", "[[1024, 96, 50], [50, 15]]", 147_456_000.0, 25_562_040.0),
        // Computed by hand for operators that those traces lack.
        ("aten::baddbmm", "[[2,3,5],[2,3,4],[2,4,5],[],[]]", 240.0, 496.0),
        ("aten::matmul", "[[7,1,2,3],[5,3,4]]", 1680.0, 1528.0),
        ("aten::matmul", "[[3],[3]]", 6.0, 28.0),
        ("aten::mv", "[[2,3],[3]]", 12.0, 44.0),
        ("aten::mm", "[[0,3],[3,4]]", 0.0, 48.0),
        ("aten::linear", "[[2,6,3],[4,3]]", 288.0, 384.0),
        ("aten::linear", "[[2,3],[3]]", 12.0, 44.0),
    ];
    for (operator, dims, flops, bytes) in cases {
        assert_eq!(cost(operator, dims, "[]"), (Some(flops), Some(bytes)), "{operator} {dims}");
    }
}

#[test]
fn costs_of_convolutions_follow_from_their_arguments() {
    // The first convolution of ResNet-50: 64 windows of 3 x 7 x 7 at 112 x 112 positions of 32
    // images.
    let dims = "[[32,3,224,224],[64,3,7,7],[],[],[],[],[],[],[]]";
    let concrete = r#"["","","","[2, 2]","[3, 3]","[1, 1]","False","[0, 0]","1"]"#;
    let positions = 32.0 * 112.0 * 112.0;
    let forward = 2.0 * positions * 64.0 * 3.0 * 49.0;
    let moved = 4.0 * (32.0 * 3.0 * 224.0 * 224.0 + 64.0 * 147.0 + 64.0 * positions);
    let of_program = r#"["","","","tensor([2, 2])","tensor([3, 3])","tensor([1, 1])"]"#;
    assert_eq!(cost("aten::conv2d", dims, of_program).0, Some(forward));
    for operator in ["aten::convolution", "aten::_convolution", "aten::conv2d"] {
        assert_eq!(cost(operator, dims, concrete), (Some(forward), Some(moved)), "{operator}");
    }
    let keywords = r#"{"Input Dims":[[32,3,224,224],[64,3,7,7]],"Input type":["float","float"],"padding":"3","stride":"[2, 2]"}"#;
    assert_eq!(flops("aten::conv2d", keywords), Some(forward), "arguments of marey.hpp by name");
    let plain = r#"{"Input Dims":[[2,2,8,8],[6,2,3,3]]}"#;
    assert_eq!(flops("aten::conv2d", plain), Some(2.0 * 2.0 * 6.0 * 36.0 * 2.0 * 9.0));
    let with_bias = r#"{"Input Dims":[[2,2,8,8],[6,2,3,3],[6]]}"#;
    assert_eq!(flops("aten::conv2d", with_bias), flops("aten::conv2d", plain));
    let unknown = r#"{"Input Dims":[[2,2,8,8],[6,2,3,3],[],[],[]]}"#;
    assert_eq!(flops("aten::conv2d", unknown), None, "its values were not recorded");
    for (operator, concrete) in [
        (
            "aten::cudnn_convolution",
            r#"["","","[3, 3]","[2, 2]","[1, 1]","1","False","False","True"]"#,
        ),
        ("aten::cudnn_convolution_add_relu", r#"["","","","1","","[2, 2]","[3, 3]","[1, 1]","1"]"#),
        ("aten::_slow_conv2d_forward", r#"["","","[7, 7]","","[2, 2]","[3, 3]"]"#),
        ("aten::slow_conv_dilated2d", r#"["","","[7, 7]","","[2, 2]","[3, 3]","[1, 1]"]"#),
        (
            "aten::miopen_convolution",
            r#"["","","","[3, 3]","[2, 2]","[1, 1]","1","False","False"]"#,
        ),
    ] {
        assert_eq!(cost(operator, dims, concrete), (Some(forward), Some(moved)), "{operator}");
    }

    let backward = "[[32,64,112,112],[32,3,224,224],[64,3,7,7],[],[],[],[],[],[],[],[]]";
    let masked = |mask: &str| {
        let concrete =
            format!(r#"["","","","[0]","[2, 2]","[3, 3]","[1, 1]","False","[0, 0]","1","{mask}"]"#);
        cost("aten::convolution_backward", backward, &concrete)
    };
    let (input, weight, result) = (4.0 * 32.0 * 3.0 * 50_176.0, 4.0 * 9408.0, 256.0 * positions);
    let both = (Some(2.0 * forward), Some(result + 2.0 * input + 2.0 * weight));
    assert_eq!(masked("[True, True, False]"), both);
    assert_eq!(
        masked("[False, True, True]"),
        (Some(forward), Some(result + input + weight)),
        "the first convolution of a network needs no input gradient"
    );

    // One gradient at a time, as before PyTorch 1.11.
    let dims = "[[],[32,64,112,112],[64,3,7,7]]";
    let concrete = r#"["[32, 3, 224, 224]","",""]"#;
    let one_gradient = (Some(forward), Some(result + input + weight));
    assert_eq!(cost("aten::cudnn_convolution_backward_input", dims, concrete), one_gradient);
    let dims = "[[],[32,64,112,112],[32,3,224,224]]";
    let concrete = r#"["[64, 3, 7, 7]","",""]"#;
    assert_eq!(cost("aten::cudnn_convolution_backward_weight", dims, concrete), one_gradient);
}

#[test]
fn grouped_dilated_unbatched_and_transposed_convolutions_have_costs() {
    let numbers = r#"["","","","[1]","[0]","[2]","False","[0]","2"]"#;
    // 4 channels in 2 groups, a window of 3 with dilation 2: 10 - 2 * 2 = 6 positions.
    let dims = "[[2,4,10],[8,2,3],[8],[],[],[],[],[],[]]";
    let (flops, bytes) = (2.0 * 2.0 * 6.0 * 48.0, 4.0 * (80.0 + 48.0 + 96.0));
    assert_eq!(cost("aten::convolution", dims, numbers), (Some(flops), Some(bytes)));
    let no_stride = r#"["","","","[0]","[0]","[2]","False","[0]","2"]"#;
    let one_window = "[[2,4,5],[8,2,3],[8],[],[],[],[],[],[]]";
    assert_eq!(cost("aten::convolution", one_window, no_stride), (None, None));
    // Without a batch dimension.
    let unbatched = "[[4,10],[8,2,3],[8],[],[],[],[],[],[]]";
    let (flops, bytes) = (2.0 * 6.0 * 48.0, 4.0 * (40.0 + 48.0 + 48.0));
    assert_eq!(cost("aten::convolution", unbatched, numbers), (Some(flops), Some(bytes)));
    // (5 - 1) * 3 - 2 * 1 + 2 + 2 + 1 = 15, where stride and groups, dilation and padding differ.
    let numbers = r#"["","","","[3]","[1]","[1]","True","[2]","2"]"#;
    let dims = "[[2,4,5],[4,3,3],[],[],[],[],[],[],[]]";
    let (flops, bytes) = (2.0 * 2.0 * 5.0 * 36.0, 4.0 * (40.0 + 36.0 + 2.0 * 6.0 * 15.0));
    assert_eq!(cost("aten::convolution", dims, numbers), (Some(flops), Some(bytes)));
    let numbers = r#"["","","[1]","[2]","[3]","[1]","2","False","False","True"]"#;
    let both = (Some(flops), Some(bytes));
    assert_eq!(cost("aten::cudnn_convolution_transpose", dims, numbers), both);
    // Transposed: 5 positions become (5 - 1) * 2 + 2 + 1 + 1 = 12, with a window for each of the 5.
    let numbers = r#"["","","","[2]","[0]","[1]","True","[1]","2"]"#;
    let dims = "[[2,4,5],[4,3,3],[],[],[],[],[],[],[]]";
    let (flops, bytes) = (2.0 * 2.0 * 5.0 * 36.0, 4.0 * (40.0 + 36.0 + 2.0 * 6.0 * 12.0));
    assert_eq!(cost("aten::convolution", dims, numbers), (Some(flops), Some(bytes)));
    let numbers = r#"["","","[0]","[1]","[2]","[1]","2","False","False","True"]"#;
    let both = (Some(flops), Some(bytes));
    assert_eq!(cost("aten::cudnn_convolution_transpose", dims, numbers), both);
    // Each of its two gradients takes as many products.
    let dims = "[[2,6,12],[2,4,5],[4,3,3],[],[],[],[],[],[],[],[]]";
    let concrete = r#"["","","","[6]","[2]","[0]","[1]","True","[1]","2","[True, True, True]"]"#;
    assert_eq!(cost("aten::convolution_backward", dims, concrete).0, Some(2.0 * flops));
}

#[test]
fn attention_counts_both_products() {
    // [batch, heads, length, size]: two query heads per key-value head, values wider than keys.
    let dims = "[[2,8,16,64],[2,4,32,64],[2,4,32,128],[],[],[],[],[]]";
    let flops = 2.0 * (2.0 * 8.0 * 16.0 * 32.0) * (64.0 + 128.0);
    let bytes = 4.0 * (16_384.0 + 16_384.0 + 32_768.0 + 32_768.0);
    for operator in
        ["aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention"]
    {
        assert_eq!(cost(operator, dims, "[]"), (Some(flops), Some(bytes)), "{operator}");
    }
    // [batch, length, heads, size].
    let dims = "[[2,16,8,64],[2,32,4,64],[2,32,4,128],[],[],[],[]]";
    for operator in ["aten::_flash_attention_forward", "aten::_efficient_attention_forward"] {
        assert_eq!(cost(operator, dims, "[]"), (Some(flops), Some(bytes)), "{operator}");
    }
    // The scores are computed again, followed by four products.
    let flops = 2.0 * (2.0 * 8.0 * 16.0 * 32.0) * (3.0 * 64.0 + 2.0 * 128.0);
    let bytes = 2.0 * 4.0 * (16_384.0 + 16_384.0 + 32_768.0 + 32_768.0);
    let dims = "[[2,8,16,128],[2,8,16,64],[2,4,32,64],[2,4,32,128],[2,8,16,128],[2,8,16]]";
    let operator = "aten::_scaled_dot_product_flash_attention_backward";
    assert_eq!(cost(operator, dims, "[]"), (Some(flops), Some(bytes)));
    let dims = "[[2,16,8,128],[2,16,8,64],[2,32,4,64],[2,32,4,128],[2,16,8,128],[2,8,16],[],[]]";
    let operator = "aten::_flash_attention_backward";
    assert_eq!(cost(operator, dims, "[]"), (Some(flops), Some(bytes)));
    // Queries, keys and values of different sizes.
    let moved = 4.0 * (6.0 + 10.0 + 20.0 + 12.0);
    let dims = "[[1,1,3,2],[1,1,5,2],[1,1,5,4]]";
    assert_eq!(cost("aten::scaled_dot_product_attention", dims, "[]").1, Some(moved));
    let moved = 2.0 * 4.0 * (12.0 + 6.0 + 10.0 + 20.0);
    let dims = "[[1,1,3,4],[1,1,3,2],[1,1,5,2],[1,1,5,4]]";
    let operator = "aten::_scaled_dot_product_cudnn_attention_backward";
    assert_eq!(cost(operator, dims, "[]").1, Some(moved));
    // Four sequences with 40 tokens in total, counted as 10 each.
    let dims = "[[40,8,64],[40,8,64],[40,8,64],[5],[5],[],[]]";
    let flops = 4.0 * (2.0 * 8.0 * 10.0 * 10.0) * 128.0;
    assert_eq!(cost("aten::_flash_attention_forward", dims, "[]").0, Some(flops));
    let dims = "[[1,40,8,64],[1,40,8,64],[1,40,8,64],[],[5],[5],[],[]]";
    assert_eq!(cost("aten::_efficient_attention_forward", dims, "[]").0, Some(flops));
}

#[test]
fn elementwise_operators_and_reductions_have_flops_and_bytes() {
    let cases = [
        ("aten::add", "[[2,1,3],[4,3],[]]", Some(24.0), Some(4.0 * (6.0 + 12.0 + 24.0))),
        ("aten::add_", "[[6],[6],[]]", Some(6.0), Some(72.0)),
        ("aten::mul", "[[6],[]]", Some(6.0), Some(48.0)),
        ("aten::relu_", "[[2,3]]", Some(6.0), Some(48.0)),
        ("aten::copy_", "[[2,3],[3],[]]", Some(0.0), Some(48.0)),
        ("aten::sum", "[[5,4],[],[],[]]", Some(20.0), Some(80.0)),
        ("aten::_softmax", "[[5,4],[],[]]", Some(20.0), Some(160.0)),
        ("aten::add", "[[0],[0],[]]", Some(0.0), Some(0.0)),
    ];
    for (operator, dims, flops, bytes) in cases {
        assert_eq!(cost(operator, dims, "[]"), (flops, bytes), "{operator} {dims}");
    }
    let halves = r#"["c10::Half","float"]"#;
    let to_half = args("[[2,3],[2,3]]", halves, "[]");
    assert_eq!(bytes("aten::copy_", &to_half), Some(36.0));
    let chosen = args("[[6],[6],[]]", r#"["bool","c10::BFloat16","Scalar"]"#, "[]");
    assert_eq!(bytes("aten::where", &chosen), Some(6.0 + 12.0 + 12.0));
}

#[test]
fn every_type_has_the_bytes_of_an_element() {
    for (bytes, types) in [
        (1.0, &["bool", "signed char", "torch.uint8", "c10::Float8_e4m3fn", "FLOAT8_E5M2"][..]),
        (2.0, &["c10::Half", "torch.bfloat16", "short", "uint16"]),
        (4.0, &["float", "torch.int32", "unsigned int", "c10::complex<c10::Half>"]),
        (8.0, &["double", "long int", "torch.complex64", "Long"]),
        (16.0, &["c10::complex<double>", "torch.complex128"]),
    ] {
        for name in types {
            assert_eq!(bytes_per_element(name), Some(bytes), "{name}");
        }
    }
    assert_eq!(bytes_per_element("TensorList"), None);
}

#[test]
fn the_first_type_selects_the_metric_of_flops() {
    for (types, metric) in [
        (r#"["signed char","float"]"#, "flops8"),
        (r#"["c10::Float8_e4m3fn","c10::Half"]"#, "flops8"),
        (r#"["c10::Half"]"#, "flops16"),
        (r#"["c10::BFloat16","double"]"#, "flops16"),
        (r#"["float","double"]"#, "flops32"),
        (r#"["double","c10::Half"]"#, "flops64"),
        ("[]", "flops32"),
    ] {
        assert_eq!(flops_metric(operand_bits(&args("[]", types, "[]"))), metric, "{types}");
    }
}

#[test]
fn only_costs_of_convolutions_need_values() {
    for operator in [
        "aten::convolution",
        "aten::convolution_backward",
        "aten::cudnn_convolution_backward_input",
        "aten::cudnn_convolution_backward_weight",
    ] {
        assert!(needs_values(operator), "{operator}");
    }
    for operator in ["aten::mm", "aten::linear", "aten::relu", "aten::sum", "aten::unknown"] {
        assert!(!needs_values(operator), "{operator}");
    }
}

#[test]
fn without_shapes_or_types_there_is_no_cost() {
    let mm = |dims: &str, types: &str| {
        let args = args(dims, types, "[]");
        (flops("aten::mm", &args), bytes("aten::mm", &args))
    };
    let floats = r#"["float","float"]"#;
    assert_eq!(mm("[[2,3],[3,4]]", r#"["float","Mystery"]"#), (Some(48.0), None));
    for dims in ["[[2,3]]", "[[2,3],[4,5]]", "[[],[]]", "[[[2,3],[3,4]],[]]", "[[2,-3],[3,4]]"] {
        assert_eq!(mm(dims, floats), (None, None), "{dims}");
    }
    for args in ["", "{}", "null", r#"{"Input Dims":"x"}"#, r#"{"Input Dims":[[2,3],[3,4]"#] {
        assert_eq!(flops("aten::mm", args), None, "{args}");
    }
    let unused_list = "[[2,3],[3,4],[[1,2],[3]]]";
    assert_eq!(mm(unused_list, floats), (Some(48.0), Some(104.0)));
    let incomplete = r#"{"Input Dims":"[[2,3],[3,4]"}"#;
    assert_eq!(flops("aten::mm", incomplete), None);
    let large = "9".repeat(200);
    assert_eq!(cost("aten::sum", &format!("[[{large},{large}]]"), "[]"), (None, None));
    let known = args("[[2,3],[3,4]]", floats, "[]");
    for operator in ["mm", "aten::", "aten::view", "my::mm", "aten::mm_backward", ""] {
        assert_eq!((flops(operator, &known), bytes(operator, &known)), (None, None), "{operator}");
    }
    // Older profilers record shapes, but no numbers.
    let args = r#"{"Input Dims":[[1,1,5],[1,1,3],[],[],[],[],[],[],[]]}"#;
    assert_eq!(flops("aten::convolution", args), None);
}

const OPERATORS: [&str; 14] = [
    "aten::mm",
    "aten::addmm",
    "aten::linear",
    "aten::convolution",
    "aten::cudnn_convolution_transpose",
    "aten::cudnn_convolution_backward_weight",
    "aten::_slow_conv2d_forward",
    "aten::convolution_backward",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_flash_attention_backward",
    "aten::_efficient_attention_forward",
    "aten::copy_",
    "aten::where",
    "aten::sum",
];

proptest! {
    #[test]
    fn any_shapes_give_a_finite_cost_or_none(
        operator in prop::sample::select(OPERATORS.to_vec()),
        dims in "\\[(\\[[0-9]{0,2}(,[0-9]{0,20}){0,4}\\],?){0,11}\\]|[\\[\\]0-9,.e-]{0,20}",
        concrete in "\\[(\"(True|False|\\[?-?[0-9]{0,3}(, ?[0-9])?\\]?|inf|nan)\",?){0,11}\\]",
    ) {
        let (flops, bytes) = cost(operator, &dims, &concrete);
        for cost in [flops, bytes].into_iter().flatten() {
            prop_assert!(cost.is_finite() && cost >= 0.0);
        }
    }

    #[test]
    fn any_arguments_are_handled_without_a_panic(
        operator in prop::sample::select(OPERATORS.to_vec()),
        args in "\\PC{0,60}",
    ) {
        flops(operator, &args);
        bytes(operator, &args);
    }
}
