/// @file
/// Floating-point operations of operators, from the shapes of their inputs.
///
/// A multiplication and an addition count as two operations, as in PyTorch's profiler.
#ifndef MAREY_FLOPS_HPP
#define MAREY_FLOPS_HPP

#include "event.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace marey {
namespace detail {

inline double element_count(const std::vector<std::int64_t> &dims) {
    double count = 1;
    for (std::int64_t dim : dims) {
        count *= static_cast<double>(dim);
    }
    return count;
}

/// Returns the numbers of a keyword argument, such as `[1, 1]`; `fallback` for those it lacks.
inline std::vector<double> keyword_numbers(const Kwargs &kwargs, std::string_view key,
                                           std::size_t count, double fallback) {
    std::vector<double> numbers;
    for (const Keyword &keyword : kwargs) {
        const char *text = keyword.key == key ? keyword.text.c_str() : "";
        while (*text != '\0') {
            char *end = nullptr;
            const double number = std::strtod(text, &end);
            if (end == text) {
                text++;
            } else {
                numbers.push_back(number);
                text = end;
            }
        }
    }
    // One number stands for all dimensions.
    numbers.resize(count, numbers.empty() ? fallback : numbers.back());
    return numbers;
}

/// Multiplication of (batches of) matrices, `a` and `b`: 2 * rows * inner * columns.
inline double matrix_product_flops(const Input &a, const Input &b) {
    if (a.dims.empty() || b.dims.empty()) {
        return 0;
    }
    const double columns = b.dims.size() < 2 ? 1 : static_cast<double>(b.dims.back());
    const double product = 2 * element_count(a.dims) * columns;
    if (b.dims.size() <= a.dims.size()) {
        return product;
    }
    double batches = 1; // that only `b` has
    for (std::size_t i = 0; i + 2 < b.dims.size(); i++) {
        batches *= static_cast<double>(b.dims[i]);
    }
    return product * (a.dims.size() <= 2 ? batches : 1);
}

/// Convolution of a batch of images with weights (out channels, in channels / groups, height,
/// width): 2 * batch * out channels * out height * out width * weights of an output.
inline double conv2d_flops(const std::vector<Input> &inputs, const Kwargs &kwargs) {
    if (inputs.size() < 2 || inputs[0].dims.size() != 4 || inputs[1].dims.size() != 4) {
        return 0;
    }
    const std::vector<double> stride = keyword_numbers(kwargs, "stride", 2, 1);
    const std::vector<double> padding = keyword_numbers(kwargs, "padding", 2, 0);
    const std::vector<double> dilation = keyword_numbers(kwargs, "dilation", 2, 1);
    const std::vector<std::int64_t> &weights = inputs[1].dims;
    double outputs = static_cast<double>(inputs[0].dims[0]) * static_cast<double>(weights[0]);
    for (std::size_t i = 0; i < 2; i++) {
        const double reach = dilation[i] * static_cast<double>(weights[i + 2] - 1) + 1;
        const double size = static_cast<double>(inputs[0].dims[i + 2]) + 2 * padding[i] - reach;
        if (stride[i] <= 0 || size < 0) {
            return 0;
        }
        outputs *= static_cast<double>(static_cast<std::int64_t>(size / stride[i])) + 1;
    }
    const double channels = static_cast<double>(weights[0] > 0 ? weights[0] : 1);
    return 2 * outputs * element_count(weights) / channels;
}

/// Returns the floating-point operations of an operator, 0 if it has no formula: `mm`, `bmm`,
/// `matmul`, `linear`, `addmm`, `baddbmm`, `conv2d`, `add`, `sub`, `mul` and `div`, with or without
/// a namespace such as `aten::`.
inline double operator_flops(std::string_view name, const std::vector<Input> &inputs,
                             const Kwargs &kwargs) {
    const std::size_t prefix = name.rfind("::");
    if (prefix != std::string_view::npos) {
        name.remove_prefix(prefix + 2);
    }
    if (name == "conv2d") {
        return conv2d_flops(inputs, kwargs);
    }
    if (name == "add" || name == "sub" || name == "mul" || name == "div") {
        double largest = 0;
        for (const Input &input : inputs) {
            const double count = input.has_dims ? element_count(input.dims) : 0;
            largest = count > largest ? count : largest;
        }
        return largest;
    }
    if (inputs.size() >= 2 && (name == "mm" || name == "bmm" || name == "matmul")) {
        return matrix_product_flops(inputs[0], inputs[1]);
    }
    if (inputs.size() >= 2 && name == "linear") { // the weights are (outputs, inputs)
        const std::vector<std::int64_t> &weights = inputs[1].dims;
        return weights.size() != 2
                   ? 0
                   : 2 * element_count(inputs[0].dims) * static_cast<double>(weights[0]);
    }
    if (inputs.size() >= 3 && (name == "addmm" || name == "baddbmm")) {
        return matrix_product_flops(inputs[1], inputs[2]);
    }
    return 0;
}

} // namespace detail
} // namespace marey

#endif // MAREY_FLOPS_HPP
