/// @file
/// The version of these headers, a namespace of all their names.
///
/// Inline functions with the same name are merged, within a library by the linker and between libraries
/// by the loader. So those of another version, and those that are compiled without exceptions, have
/// other names.
#ifndef MAREY_VERSION_HPP
#define MAREY_VERSION_HPP

#include <cstdint>

/// @cond
/* Counts up with each change of a class or of what an inline function does. */
#ifdef __cpp_exceptions
#define MAREY_HPP_VERSION_ hpp_5
#else
#define MAREY_HPP_VERSION_ hpp_5_noexcept
#endif
/// @endcond

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// The number of the version above. Libraries with another one do not share a profile.
constexpr std::uint64_t version = 5;

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_VERSION_HPP
