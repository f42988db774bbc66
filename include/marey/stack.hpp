/// @file
/// Native call stacks: addresses by `_Unwind_Backtrace` (`.eh_frame`), names by the dynamic symbols.
#ifndef MAREY_STACK_HPP
#define MAREY_STACK_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <string>
#include <unordered_map>
#include <unwind.h>
#include <vector>

namespace marey {
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

/// Names of addresses. Functions that are not dynamic symbols (programs: link with `-rdynamic`) are
/// `FILE+0xOFFSET`, which `addr2line -e FILE 0xOFFSET` resolves.
class Symbols {
public:
    const std::string &name(void *address) {
        const auto known = names_.find(address);
        return known != names_.end() ? known->second
                                     : names_.emplace(address, find(address)).first->second;
    }

private:
    static std::string find(void *address) {
        Dl_info info;
        char offset[32];
        if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
            std::snprintf(offset, sizeof offset, "%p", address);
            return offset;
        }
        if (info.dli_sname == nullptr) {
            const auto base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
            const std::uintptr_t distance = reinterpret_cast<std::uintptr_t>(address) - base;
            std::snprintf(offset, sizeof offset, "+0x%zx", static_cast<std::size_t>(distance));
            return std::string(info.dli_fname) + offset;
        }
        int status = 0;
        char *readable = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
        std::string name = status == 0 && readable != nullptr ? readable : info.dli_sname;
        std::free(readable);
        return name;
    }

    std::unordered_map<void *, std::string> names_;
};

} // namespace detail
} // namespace marey

#endif // MAREY_STACK_HPP
