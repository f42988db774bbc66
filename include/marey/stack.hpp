/// @file
/// Native call stacks: addresses by `_Unwind_Backtrace` (`.eh_frame`). A scope keeps the file and the
/// address in it of each call; `marey` finds the names when it reads the run.
#ifndef MAREY_STACK_HPP
#define MAREY_STACK_HPP

#include "code_files.hpp"
#include "version.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <string>
#include <unordered_map>
#include <unwind.h>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// The number of frames of a stack that are kept, from the innermost one.
constexpr std::size_t max_frames = 64;

struct FrameBuffer {
    void *frames[max_frames];
    std::size_t count;
};

inline _Unwind_Reason_Code receive_frame(_Unwind_Context *context, void *to) {
    FrameBuffer &buffer = *static_cast<FrameBuffer *>(to);
    // One less: the call, and not the instruction after it.
    const std::uintptr_t address = static_cast<std::uintptr_t>(_Unwind_GetIP(context));
    if (address == 0 || buffer.count == max_frames) {
        return _URC_END_OF_STACK;
    }
    buffer.frames[buffer.count++] = reinterpret_cast<void *>(address - 1);
    return _URC_NO_REASON;
}

/// Returns the addresses of the calls on this thread's stack, innermost first, from the one that
/// returns to `innermost` on; all of them if none does.
inline std::vector<void *> native_frames(const void *innermost) {
    FrameBuffer buffer;
    buffer.count = 0;
    _Unwind_Backtrace(receive_frame, &buffer);
    std::size_t first = 0;
    while (first < buffer.count && static_cast<char *>(buffer.frames[first]) + 1 != innermost) {
        first++;
    }
    first = first == buffer.count ? 0 : first;
    return std::vector<void *>(buffer.frames + first, buffer.frames + buffer.count);
}

/// Names of places by the dynamic symbols, without reading a file. Other functions, and those of a file
/// that was closed, are `FILE+0xADDRESS`, which `addr2line -e FILE 0xADDRESS` resolves.
class Symbols {
public:
    /// `loaded` is the code that is loaded now.
    explicit Symbols(const LoadedCode &loaded) : loaded_(loaded) {}

    const std::string &name(const CodePlace &place) {
        const auto known = names_.find(place.address);
        return known != names_.end() && known->second.first == place.file
                   ? known->second.second
                   : (names_[place.address] = {place.file, find(place)}).second;
    }

private:
    std::string find(const CodePlace &place) const {
        Dl_info info;
        if (place.file == nullptr || loaded_.file_of(place.address) != place.file ||
            dladdr(reinterpret_cast<void *>(place.address), &info) == 0 ||
            info.dli_sname == nullptr) {
            return place_text(place);
        }
        int status = 0;
        char *readable = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
        std::string name = status == 0 && readable != nullptr ? readable : info.dli_sname;
        std::free(readable);
        return name;
    }

    const LoadedCode &loaded_;
    std::unordered_map<std::uintptr_t, std::pair<const CodeFile *, std::string>> names_;
};

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_STACK_HPP
