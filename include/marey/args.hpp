/// @file
/// The metadata of an event as members of a JSON object, with the keys of PyTorch's profiler.
#ifndef MAREY_ARGS_HPP
#define MAREY_ARGS_HPP

#include "event.hpp"
#include "version.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// Appends a member's key, after a comma unless it is the first.
inline void append_key(std::string &json, std::string_view key) {
    if (!json.empty() && json.back() != '{') {
        json += ", ";
    }
    append_json_text(json, key);
    json += ": ";
}

inline void append_member(std::string &json, std::string_view key, std::string_view text) {
    append_key(json, key);
    append_json_text(json, text);
}

inline void append_number_member(std::string &json, std::string_view key, std::int64_t number) {
    append_key(json, key);
    json += integer_text(number);
}

/// Appends a part of each input; for a list of tensors, a list of their parts.
template <class Append>
void append_inputs(std::string &json, const std::vector<Input> &inputs, const Append &append) {
    append_json_list(json, inputs, [&append](std::string &to, const Input &input) {
        if (input.items.empty()) {
            append(to, input);
        } else {
            append_inputs(to, input.items, append);
        }
    });
}

/// Appends what is known of the inputs, and the keyword arguments.
inline void append_details(std::string &json, const Details &details) {
    if (!details.inputs.empty()) {
        append_key(json, "Input Dims");
        append_inputs(json, details.inputs, [](std::string &to, const Input &input) {
            append_json_integers(to, input.dims);
        });
        append_key(json, "Input type");
        append_json_list(json, details.inputs, [](std::string &to, const Input &input) {
            append_json_text(to, input.dtype);
        });
        bool has_strides = false;
        bool has_values = false;
        for (const Input &input : details.inputs) {
            has_strides = has_strides || !input.strides.empty() ||
                          (!input.items.empty() && !input.items[0].strides.empty());
            has_values = has_values || !input.value.empty() ||
                         (!input.items.empty() && !input.items[0].value.empty());
        }
        if (has_strides) {
            append_key(json, "Input Strides");
            append_inputs(json, details.inputs, [](std::string &to, const Input &input) {
                append_json_integers(to, input.strides);
            });
        }
        if (has_values) {
            append_key(json, "Concrete Inputs");
            append_inputs(json, details.inputs, [](std::string &to, const Input &input) {
                append_json_text(to, input.value);
            });
        }
    }
    for (const Keyword &keyword : details.kwargs) {
        append_member(json, keyword.key, keyword.text);
    }
}

/// Returns the floating-point operations of an operator, from its inputs and keyword arguments; 0 if
/// they are unknown. It may have no namespace such as `aten::`.
inline double operator_flops(const std::string &name, const Details &details) {
    std::string json = "{";
    append_details(json, details);
    json += "}";
    const double flops =
        marey_load()->operator_flops(name.data(), name.size(), json.data(), json.size());
    return flops > 0 ? flops : 0;
}

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_ARGS_HPP
