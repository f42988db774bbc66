/// @file
/// `Event`: one scope, report of memory, or device event of a profile.
#ifndef MAREY_EVENT_HPP
#define MAREY_EVENT_HPP

#include "../marey.h"
#include "code_files.hpp"
#include "config.hpp"
#include "inputs.hpp"
#include "version.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

/// A device as "Device Type" of traces has it.
enum class DeviceType : std::int8_t {
    CPU = 0,  ///< The host.
    CUDA = 1, ///< An NVIDIA GPU.
};

/// A keyword argument of a scope: a name and a number, a text or a list of numbers.
struct Keyword {
    /// A keyword argument with the value as text.
    template <class T> Keyword(std::string keyword, const T &value) : key(std::move(keyword)) {
        if constexpr (std::is_arithmetic<T>::value) {
            detail::append_number(text, value);
        } else if constexpr (detail::IsText<T>::value) {
            text = std::string(std::string_view(value));
        } else {
            detail::append_json_list(text, value, [](std::string &to, const auto &number) {
                detail::append_number(to, number);
            });
        }
    }

    std::string key;  ///< The name, a key of its own in the trace.
    std::string text; ///< The value as text: "1", "[1, 1]", "zeros".
};

/// The keyword arguments of a scope.
using Kwargs = std::vector<Keyword>;

namespace detail {

/// The parts of an event that most events do not have.
struct Details {
    std::string name; // of a scope whose name did not fit into the table of names
    std::vector<Input> inputs;
    Kwargs kwargs;
    std::vector<CodePlace> frames;  // innermost first; named in `stack` at the end
    std::vector<std::uint32_t> callers; // names of the scopes around, outermost first
    std::vector<std::string> stack;     // outermost first
    std::string modules;
    std::vector<std::pair<std::string, std::uint64_t>> counters;
    std::vector<std::uint64_t> counts_at_start;
    double flops = 0;
    bool keeps_inputs = false; // otherwise they are read for the FLOP alone
    std::uintptr_t address = 0;
    std::int64_t bytes = 0;
    std::int64_t total_allocated = 0;
    std::int64_t total_reserved = 0;
    DeviceType device = DeviceType::CPU;
    std::int32_t device_index = -1;
    bool is_memory = false;
    const char *category = nullptr; // of a device event
    std::int64_t stream = -1;
    std::uint64_t linked_id = 0;
    std::array<std::uint32_t, 6> sizes = {};
    std::uint32_t registers = 0;
};

/// The parts of an event that every event has. The name is a number.
struct RecordBase {
    std::uint32_t name = 0;
    RecordScope scope = RecordScope::FUNCTION;
    bool is_finished = true;
    std::uint64_t id = 0;
    std::int64_t start_ns = 0; // since 1970
    std::int64_t end_ns = 0;
    std::int64_t sequence = -1;
    std::int64_t debug_handle = -1;
    std::uint64_t forward_thread = 0;
    std::uint64_t start_thread = 0;
    std::uint64_t end_thread = 0;
};

/// An event while it is recorded. It may outlive the library that made it, so it owns no object
/// with a function of that library, such as a `std::shared_ptr` has one.
struct Record : RecordBase {
    std::unique_ptr<Details> details;

    Details &make_details() {
        if (details == nullptr) {
            details.reset(new Details);
        }
        return *details;
    }
};

class TraceWriter;

MAREY_FN_ const Details &no_details() {
    static const Details none;
    return none;
}

} // namespace detail

/// One scope, report of memory, device activity, or call of a device's API.
class Event {
public:
    /// An event of a profile that was enabled at `profile_start_ns`, in nanoseconds since 1970.
    Event(std::string name, detail::Record record, std::int64_t profile_start_ns)
        : name_(std::move(name)), record_(record), details_(std::move(record.details)),
          profile_start_ns_(profile_start_ns) {}

    /// The name; "[memory]" for a report of memory.
    const std::string &name() const { return name_; }
    /// Nanoseconds since 1970.
    std::int64_t start_ns() const { return record_.start_ns; }
    /// Nanoseconds since 1970.
    std::int64_t end_ns() const { return record_.end_ns; }
    /// Nanoseconds.
    std::int64_t duration_ns() const { return record_.end_ns - record_.start_ns; }
    /// Microseconds since the profile was enabled.
    double start_us() const {
        return static_cast<double>(record_.start_ns - profile_start_ns_) / 1000;
    }
    /// Microseconds.
    double duration_us() const { return static_cast<double>(duration_ns()) / 1000; }
    /// The operating system's id of the thread that began the scope; 0 for an activity.
    std::uint64_t thread_id() const { return record_.start_thread; }
    /// The thread that ended the scope.
    std::uint64_t end_thread_id() const { return record_.end_thread; }
    /// Whether another thread ended the scope than the one that began it.
    bool is_async() const { return record_.start_thread != record_.end_thread; }
    /// Whether the scope ended before the profile did. Otherwise it ends with the profile.
    bool is_finished() const { return record_.is_finished; }
    /// The category in traces: "cpu_op", "user_annotation", "cpu_instant_event" for memory,
    /// "cuda_runtime" and "cuda_driver" for calls, "kernel", "gpu_memcpy", "gpu_memset",
    /// "cuda_sync", "overhead".
    const char *category() const {
        if (details().category != nullptr) {
            return details().category;
        }
        if (is_memory()) {
            return "cpu_instant_event";
        }
        return scope() == RecordScope::USER_SCOPE ? "user_annotation" : "cpu_op";
    }
    /// Whether this is a device activity, or a call of a device's API.
    bool is_device_event() const { return details().category != nullptr; }
    /// The device of an activity or of reported memory; CPU for scopes and calls.
    DeviceType device() const { return details().device; }
    /// The number of the device, -1 if it has none.
    int device_index() const { return details().device_index; }
    /// The kind of the scope; FUNCTION for anything else.
    RecordScope scope() const { return record_.scope; }
    /// The stream of an activity, -1 if there is none.
    std::int64_t stream() const { return details().stream; }
    /// Of a scope, a number that no other scope of the process has. Of a call and its activities,
    /// the number that they share, 0 if there is none.
    std::uint64_t correlation_id() const { return record_.id; }
    /// The correlation id of the scope in which an activity was launched or a call was made; 0 if
    /// there is none.
    std::uint64_t linked_correlation_id() const { return details().linked_id; }
    /// Grid in blocks and block in threads of a kernel, x to z.
    const std::array<std::uint32_t, 6> &kernel_sizes() const { return details().sizes; }
    /// Registers per thread of a kernel.
    std::uint32_t registers() const { return details().registers; }
    /// The number that a forward operator shares with its backward, -1 if there is none.
    std::int64_t sequence_number() const { return record_.sequence; }
    /// The thread of the forward operator with the same sequence number; 0 if this is no backward
    /// operator, or its forward operator is unknown: also if two threads ran one with that number.
    std::uint64_t forward_thread_id() const { return record_.forward_thread; }
    /// The handle of an edge scope, -1 if there is none.
    std::int64_t debug_handle() const { return record_.debug_handle; }
    /// The inputs with all that was recorded of them.
    const std::vector<Input> &inputs() const { return details().inputs; }
    /// The dimensions of each input, empty for scalars and texts.
    std::vector<std::vector<std::int64_t>> shapes() const {
        return each_input([](const Input &input) { return input.dims; });
    }
    /// The type of each input: "float", "Scalar", ...
    std::vector<std::string> dtypes() const {
        return each_input([](const Input &input) { return input.dtype; });
    }
    /// The strides of each input, in elements. Recorded with concrete inputs.
    std::vector<std::vector<std::int64_t>> strides() const {
        return each_input([](const Input &input) { return input.strides; });
    }
    /// The value of each input as text. Recorded with concrete inputs.
    std::vector<std::string> concrete_inputs() const {
        return each_input([](const Input &input) { return input.value; });
    }
    /// The keyword arguments.
    const Kwargs &kwargs() const { return details().kwargs; }
    /// The scopes (`verbose`) or native functions (`with_stack`) around the event, outermost first. A
    /// function that is no dynamic symbol is "FILE+0xADDRESS".
    const std::vector<std::string> &stack() const { return details().stack; }
    /// The modules around the scope, joined by dots.
    const std::string &module_hierarchy() const { return details().modules; }
    /// Name and count of each performance event, including those of the scopes inside.
    const std::vector<std::pair<std::string, std::uint64_t>> &counters() const {
        return details().counters;
    }
    /// Floating-point operations by the formula of the operator; 0 if it has none.
    double flops() const { return details().flops; }
    /// Whether this is a report of memory.
    bool is_memory() const { return details().is_memory; }
    /// Bytes reported, negative for a release; bytes that a device copied or filled.
    std::int64_t bytes() const { return details().bytes; }
    /// The reported address; 0 if this is no report of memory.
    std::uintptr_t address() const { return details().address; }
    /// Bytes in use after the report.
    std::int64_t total_allocated() const { return details().total_allocated; }
    /// Bytes that the allocator has reserved, 0 if it did not say.
    std::int64_t total_reserved() const { return details().total_reserved; }

private:
    friend class detail::TraceWriter;

    const detail::Details &details() const {
        return details_ ? *details_ : detail::no_details();
    }

    template <class Part>
    auto each_input(const Part &part) const -> std::vector<decltype(part(std::declval<Input>()))> {
        std::vector<decltype(part(std::declval<Input>()))> parts;
        for (const Input &input : details().inputs) {
            parts.push_back(part(input));
        }
        return parts;
    }

    std::string name_;
    detail::RecordBase record_;
    std::shared_ptr<const detail::Details> details_;
    std::int64_t profile_start_ns_;
};

/// The name of `Event` in PyTorch.
using KinetoEvent = Event;

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_EVENT_HPP
