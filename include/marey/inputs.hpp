/// @file
/// Inputs of scopes: shape, type, strides and values of tensors, arrays, scalars and texts.
///
/// A tensor type of a program is described by a specialisation of `marey::InputTraits`:
///
///     template <> struct marey::InputTraits<Image> {
///         static std::vector<std::int64_t> shape(const Image &image) { return {image.h, image.w}; }
///         static const char *dtype(const Image &) { return "float"; }
///         // Optional. Strides in elements; without them the elements are contiguous.
///         static std::vector<std::int64_t> strides(const Image &image) { return {image.pitch, 1}; }
///         // Optional: the first element, for the values. Numbers of C++, complex ones, and types
///         // that convert to `float` have texts.
///         static const float *data(const Image &image) { return image.pixels; }
///         // Or the values as one text, for elements of another type:
///         // static std::string values(const Image &image, const marey::Input &input);
///     };
///
/// Ready ones exist for numbers, texts, contiguous ranges of numbers (`std::vector`, `std::array`,
/// `std::span`), dense types of Eigen, and tensors of ATen.
#ifndef MAREY_INPUTS_HPP
#define MAREY_INPUTS_HPP

#include "text.hpp"
#include "version.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

/// One input of a scope.
struct Input {
    std::string dtype;                 ///< "float", "Scalar", "TensorList", ...
    std::vector<std::int64_t> dims;    ///< Elements in each dimension.
    std::vector<std::int64_t> strides; ///< Elements from one index to the next.
    std::string value;                 ///< The value as text; empty if it was not recorded.
    std::vector<Input> items;          ///< The tensors of a TensorList.
    bool has_dims = false;             ///< False for scalars and texts.
};

/// Describes values of type T as inputs. See the head of this file.
template <class T, class Enable = void> struct InputTraits;

/// The number of elements of an input that are recorded as values; "..." stands for further ones.
constexpr std::int64_t max_input_values = 1000;

namespace detail {

template <class... T> struct Void {
    using type = void;
};
template <class... T> using void_type = typename Void<T...>::type;

/// The traits of types that the header knows.
template <class T, class Enable = void> struct ReadyTraits;

template <class Traits, class T, class = void> struct HasShape : std::false_type {};
template <class Traits, class T>
struct HasShape<Traits, T, void_type<decltype(Traits::shape(std::declval<const T &>()))>>
    : std::true_type {};

template <class Traits, class T, class = void> struct HasStrides : std::false_type {};
template <class Traits, class T>
struct HasStrides<Traits, T, void_type<decltype(Traits::strides(std::declval<const T &>()))>>
    : std::true_type {};

template <class Traits, class T, class = void> struct HasData : std::false_type {};
template <class Traits, class T>
struct HasData<Traits, T, void_type<decltype(Traits::data(std::declval<const T &>()))>>
    : std::true_type {};

template <class Traits, class T, class = void> struct HasValues : std::false_type {};
template <class Traits, class T>
struct HasValues<Traits, T,
                 void_type<decltype(Traits::values(std::declval<const T &>(),
                                                   std::declval<const Input &>()))>>
    : std::true_type {};

/// The type of the elements to which `data` points.
template <class Traits, class T>
using ElementOf = std::remove_cv_t<
    std::remove_pointer_t<decltype(Traits::data(std::declval<const T &>()))>>;

/// The program's own traits of a type, else the header's.
template <class T>
using TraitsOf =
    std::conditional_t<HasShape<InputTraits<T>, T>::value, InputTraits<T>, ReadyTraits<T>>;

template <class T> struct IsDescribed : HasShape<TraitsOf<T>, T> {};

template <class T> struct IsText : std::is_convertible<const T &, std::string_view> {};

template <class T, class = void> struct IsRange : std::false_type {};
template <class T>
struct IsRange<T, void_type<decltype(std::begin(std::declval<const T &>())),
                            decltype(std::end(std::declval<const T &>()))>>
    : std::bool_constant<!IsText<T>::value> {};

template <class T, class = void> struct IsMatrix : std::false_type {}; // of Eigen
template <class T>
struct IsMatrix<T, void_type<decltype(std::declval<const T &>().rowStride()),
                             decltype(std::declval<const T &>().colStride()),
                             decltype(std::declval<const T &>().data()), typename T::Scalar>>
    : std::true_type {};

template <class T, class = void> struct IsNumbers : std::false_type {};
template <class T>
struct IsNumbers<T, void_type<decltype(std::declval<const T &>().data() +
                                       std::declval<const T &>().size()),
                              typename T::value_type>>
    : std::bool_constant<std::is_arithmetic<typename T::value_type>::value && !IsText<T>::value &&
                         !IsMatrix<T>::value> {};

/// Returns the name of a type of numbers, as traces of PyTorch have it.
template <class T> constexpr const char *dtype_name() {
    using E = std::remove_cv_t<T>;
    if constexpr (std::is_same<E, bool>::value) {
        return "bool";
    } else if constexpr (std::is_same<E, float>::value) {
        return "float";
    } else if constexpr (std::is_same<E, double>::value) {
        return "double";
    } else if constexpr (std::is_floating_point<E>::value) {
        return "long double";
    } else if constexpr (IsComplex<E>::value) {
        return sizeof(E) == 8 ? "c10::complex<float>" : "c10::complex<double>";
    } else if constexpr (!std::is_integral<E>::value) {
        return ""; // of the program
    } else if constexpr (sizeof(E) == 1) {
        return std::is_signed<E>::value ? "signed char" : "unsigned char";
    } else if constexpr (sizeof(E) == 2) {
        return std::is_signed<E>::value ? "short int" : "short unsigned int";
    } else if constexpr (sizeof(E) == 4) {
        return std::is_signed<E>::value ? "int" : "unsigned int";
    } else {
        return std::is_signed<E>::value ? "long int" : "long unsigned int";
    }
}

inline std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t> &dims) {
    std::vector<std::int64_t> strides(dims.size(), 1);
    for (std::size_t i = dims.size(); i-- > 1;) {
        strides[i - 1] = strides[i] * (dims[i] > 0 ? dims[i] : 1);
    }
    return strides;
}

/// Writes the elements of a strided array as nested lists.
template <class Element>
void write_elements(std::string &text, const Element *data, const Input &input, std::size_t axis,
                    std::int64_t &left) {
    if (axis == input.dims.size()) {
        append_number(text, *data);
        left--;
        return;
    }
    text += '[';
    for (std::int64_t i = 0; i < input.dims[axis]; i++) {
        if (i > 0) {
            text += ", ";
        }
        if (left <= 0) {
            text += "...";
            break;
        }
        write_elements(text, data + i * input.strides[axis], input, axis + 1, left);
    }
    text += ']';
}

template <class Element> std::string tensor_text(const Element *data, const Input &input) {
    std::string text = "tensor(";
    std::int64_t left = max_input_values;
    bool is_empty = data == nullptr;
    for (std::int64_t dim : input.dims) {
        is_empty = is_empty || dim <= 0;
    }
    if (is_empty) {
        text += "[]";
    } else {
        write_elements(text, data, input, 0, left);
    }
    return text += ')';
}

/// Returns a description of one value. `concrete` includes strides and values.
template <class T> Input describe(const T &value, bool concrete) {
    Input input;
    if constexpr (std::is_same<T, Input>::value) {
        input = value;
    } else if constexpr (IsDescribed<T>::value) {
        using Traits = TraitsOf<T>;
        input.has_dims = true;
        input.dims = Traits::shape(value);
        input.dtype = Traits::dtype(value);
        if (concrete) {
            if constexpr (HasStrides<Traits, T>::value) {
                input.strides = Traits::strides(value);
            }
            if (input.strides.size() != input.dims.size()) {
                input.strides = contiguous_strides(input.dims);
            }
            if constexpr (HasValues<Traits, T>::value) {
                input.value = Traits::values(value, input);
            } else if constexpr (HasData<Traits, T>::value) {
                if constexpr (HasText<ElementOf<Traits, T>>::value) {
                    input.value = tensor_text(Traits::data(value), input);
                }
            }
        }
    } else if constexpr (std::is_arithmetic<T>::value) {
        input.dtype = "Scalar";
        if (concrete) {
            append_number(input.value, value);
        }
    } else if constexpr (IsText<T>::value) {
        input.dtype = "String";
        if (concrete) {
            input.value = std::string(std::string_view(value));
        }
    } else if constexpr (IsRange<T>::value) {
        input.dtype = "TensorList";
        input.has_dims = true;
        for (const auto &item : value) {
            input.items.push_back(describe(item, concrete));
        }
    } else {
        static_assert(IsRange<T>::value, "specialise marey::InputTraits for this type of input");
    }
    return input;
}

template <class T> struct IsTuple : std::false_type {};
template <class... T> struct IsTuple<std::tuple<T...>> : std::true_type {};

/// Returns descriptions of the inputs of a scope: of the elements of a tuple, or of a range of
/// anything but numbers, otherwise of the one value.
template <class T> std::vector<Input> describe_all(const T &inputs, bool concrete) {
    std::vector<Input> described;
    if constexpr (IsTuple<T>::value) {
        const auto describe_each = [&](const auto &...each) {
            (described.push_back(describe(each, concrete)), ...);
        };
        std::apply(describe_each, inputs);
    } else if constexpr (IsRange<T>::value && !IsDescribed<T>::value) {
        for (const auto &each : inputs) {
            described.push_back(describe(each, concrete));
        }
    } else {
        described.push_back(describe(inputs, concrete));
    }
    return described;
}

/// Contiguous ranges of numbers, with one dimension.
template <class T> struct ReadyTraits<T, std::enable_if_t<IsNumbers<T>::value>> {
    static std::vector<std::int64_t> shape(const T &range) {
        return {static_cast<std::int64_t>(range.size())};
    }
    static const char *dtype(const T &) { return dtype_name<typename T::value_type>(); }
    static auto data(const T &range) { return range.data(); }
};

/// Matrices, arrays and maps of Eigen. Expressions must be evaluated first.
template <class T> struct ReadyTraits<T, std::enable_if_t<IsMatrix<T>::value>> {
    static std::vector<std::int64_t> shape(const T &matrix) {
        return {static_cast<std::int64_t>(matrix.rows()), static_cast<std::int64_t>(matrix.cols())};
    }
    static const char *dtype(const T &) { return dtype_name<typename T::Scalar>(); }
    static std::vector<std::int64_t> strides(const T &matrix) {
        return {static_cast<std::int64_t>(matrix.rowStride()),
                static_cast<std::int64_t>(matrix.colStride())};
    }
    static const typename T::Scalar *data(const T &matrix) { return matrix.data(); }
};

/// Tensors of ATen.
template <class T>
struct ReadyTraits<T, void_type<decltype(std::declval<const T &>().sizes().begin()),
                                decltype(std::declval<const T &>().strides().begin()),
                                decltype(std::declval<const T &>().dtype().name()),
                                decltype(std::declval<const T &>().scalar_type()),
                                decltype(std::declval<const T &>().is_cpu()),
                                decltype(std::declval<const T &>().data_ptr())>> {
    static std::vector<std::int64_t> shape(const T &tensor) {
        if (!tensor.defined()) {
            return {};
        }
        return std::vector<std::int64_t>(tensor.sizes().begin(), tensor.sizes().end());
    }
    static std::string dtype(const T &tensor) {
        return tensor.defined() ? std::string(tensor.dtype().name()) : std::string();
    }
    static std::vector<std::int64_t> strides(const T &tensor) {
        if (!tensor.defined()) {
            return {};
        }
        return std::vector<std::int64_t>(tensor.strides().begin(), tensor.strides().end());
    }
    /// Values of tensors on a device are not copied to the host; there is no text for them.
    static std::string values(const T &tensor, const Input &input) {
        if (!tensor.defined() || !tensor.is_cpu()) {
            return {};
        }
        const void *data = tensor.data_ptr();
        const std::string &type = input.dtype;
        if (type == "float") {
            return tensor_text(static_cast<const float *>(data), input);
        }
        if (type == "double") {
            return tensor_text(static_cast<const double *>(data), input);
        }
        if (type == "long int" || type == "long") {
            return tensor_text(static_cast<const std::int64_t *>(data), input);
        }
        if (type == "int") {
            return tensor_text(static_cast<const std::int32_t *>(data), input);
        }
        if (type == "bool") {
            return tensor_text(static_cast<const bool *>(data), input);
        }
        return {};
    }
};

} // namespace detail

/// Returns several inputs of different types, for the macros: `marey::inputs(weights, 3, bias)`.
template <class... T> std::tuple<const T &...> inputs(const T &...values) {
    return std::tuple<const T &...>(values...);
}

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_INPUTS_HPP
