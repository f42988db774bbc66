/// @file
/// Numbers, lists and texts as JSON and as readable text.
#ifndef MAREY_TEXT_HPP
#define MAREY_TEXT_HPP

#include "version.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// Returns an integer as text. Unlike `std::to_string` it has no static variable, which would keep a
/// library from being closed.
template <class Integer> std::string integer_text(Integer number) {
    char digits[32];
    if constexpr (std::is_signed<Integer>::value) {
        std::snprintf(digits, sizeof digits, "%lld", static_cast<long long>(number));
    } else {
        std::snprintf(digits, sizeof digits, "%llu", static_cast<unsigned long long>(number));
    }
    return digits;
}

inline std::string decimal_text(double number) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.9g", number);
    return digits;
}

template <class Number, class = void> struct IsComplex : std::false_type {};
template <class Number>
struct IsComplex<Number, decltype(static_cast<void>(std::declval<Number>().real() +
                                                    std::declval<Number>().imag()))>
    : std::true_type {};

/// Whether numbers of a type have a text: of C++ itself, complex ones, and those that become `float`
/// by themselves, such as halves.
template <class Number>
struct HasText : std::bool_constant<std::is_arithmetic<Number>::value ||
                                    IsComplex<Number>::value ||
                                    (!std::is_enum<Number>::value &&
                                     std::is_convertible<const Number &, float>::value)> {};

/// Appends a number as Python prints it: "1.0", "3", "True", "(1.0+2.0j)".
template <class Number> void append_number(std::string &text, const Number &number) {
    if constexpr (std::is_same<Number, bool>::value) {
        text += number ? "True" : "False";
    } else if constexpr (std::is_floating_point<Number>::value) {
        const std::string digits = decimal_text(static_cast<double>(number));
        text += digits;
        if (std::isfinite(number) && digits.find_first_of(".e") == std::string::npos) {
            text += ".0";
        }
    } else if constexpr (IsComplex<Number>::value) {
        std::string imaginary;
        append_number(imaginary, number.imag());
        text += '(';
        append_number(text, number.real());
        text += (imaginary[0] == '-' ? "" : "+") + imaginary + "j)";
    } else if constexpr (!std::is_integral<Number>::value) {
        append_number(text, static_cast<float>(number));
    } else {
        text += integer_text(number);
    }
}

/// Returns the length of the valid UTF-8 sequence at the start of `text`, 0 if there is none.
inline std::size_t utf8_length(std::string_view text) {
    const auto byte = [text](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
    };
    const auto is_continuation = [&byte](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
    const unsigned first = byte(0);
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first < 0xE0) {
        return is_continuation(1) ? 2 : 0;
    }
    if (first >= 0xE0 && first < 0xF0) {
        // Neither overlong forms nor surrogates.
        const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
        const unsigned high = first == 0xED ? 0x9F : 0xBF;
        return byte(1) >= low && byte(1) <= high && is_continuation(2) ? 3 : 0;
    }
    if (first >= 0xF0 && first < 0xF5) {
        const unsigned low = first == 0xF0 ? 0x90 : 0x80;
        const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
        return byte(1) >= low && byte(1) <= high && is_continuation(2) && is_continuation(3) ? 4 : 0;
    }
    return 0;
}

/// Appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
inline void append_json_text(std::string &json, std::string_view text) {
    json += '"';
    while (!text.empty()) {
        const char c = text.front();
        std::size_t length = 1;
        if (c == '"' || c == '\\') {
            json += '\\';
            json += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
            json += escape;
        } else {
            length = utf8_length(text);
            if (length == 0) {
                length = 1;
                json += "\xEF\xBF\xBD";
            } else {
                json.append(text.data(), length);
            }
        }
        text.remove_prefix(length);
    }
    json += '"';
}

/// Appends a JSON list, whose elements `append` appends.
template <class Range, class Append>
void append_json_list(std::string &json, const Range &range, const Append &append) {
    json += '[';
    bool is_first = true;
    for (const auto &element : range) {
        if (!is_first) {
            json += ", ";
        }
        is_first = false;
        append(json, element);
    }
    json += ']';
}

/// Appends a list of integers.
template <class Range> void append_json_integers(std::string &json, const Range &range) {
    append_json_list(json, range,
                     [](std::string &to, const auto &number) { to += integer_text(number); });
}

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_TEXT_HPP
