/// @file
/// Events as a Chrome trace with the keys of PyTorch's profiler, for Perfetto, chrome://tracing,
/// HTA and `marey`.
#ifndef MAREY_TRACE_JSON_HPP
#define MAREY_TRACE_JSON_HPP

#include "args.hpp"
#include "lanes.hpp"
#include "version.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// The properties of a profile that are written at the head of a trace.
struct TraceHeader {
    std::string trace_id;
    std::string title;
    std::int64_t start_ns = 0; // since 1970
    std::int64_t end_ns = 0;
    std::uint64_t dropped_events = 0;
    std::vector<std::string> warnings;
    std::vector<std::string> flags; // options that are set, as PyTorch names them
};

/// Writes a trace, event by event.
class TraceWriter {
public:
    TraceWriter(std::FILE *file, const TraceHeader &header, const std::vector<Event> &events)
        : file_(file), lanes_(events), base_ns_(header.start_ns / base_unit_ns * base_unit_ns), pid_(getpid()) {
        write_header(header);
    }

    void write(const std::vector<Event> &events, const TraceHeader &header) {
        name_threads(events, header);
        std::int64_t index = 0;
        for (const Event &event : events) {
            if (event.is_device_event()) {
                write_device_event(event);
            } else if (event.is_memory()) {
                write_memory(event, index);
            } else {
                write_scope(event, index);
            }
            index++;
        }
        write_flows(events);
        write_span("PyTorch Profiler (0)", header);
        std::string end = "\n], \"traceName\": ";
        append_json_text(end, header.title);
        put(end + "}\n");
    }

    /// Whether everything could be written.
    bool is_written() const { return is_written_; }

private:
    // The base of timestamps of PyTorch, a quarter of a year.
    static constexpr std::int64_t base_unit_ns = 7889238LL * 1000000000;

    void put(const std::string &text) {
        is_written_ = is_written_ && std::fwrite(text.data(), 1, text.size(), file_) == text.size();
    }

    void write_header(const TraceHeader &header) {
        std::string json = "{\"schemaVersion\": 1";
        const char *rank = std::getenv("RANK");
        const char *world_size = std::getenv("WORLD_SIZE");
        if (rank != nullptr && *rank != '\0') {
            // With a space after the colon, for which HTA searches.
            json += ", \"distributedInfo\": {\"rank\": " + integer_text(std::atoi(rank));
            if (world_size != nullptr && *world_size != '\0') {
                append_number_member(json, "world_size", std::atoi(world_size));
            }
            json += "}";
        }
        if (!header.trace_id.empty()) {
            append_member(json, "trace_id", header.trace_id);
        }
        for (const std::string &flag : header.flags) {
            append_number_member(json, flag, 1);
        }
        if (!header.warnings.empty()) {
            append_key(json, "WARNING");
            append_json_list(json, header.warnings, [](std::string &to, const std::string &warning) {
                append_json_text(to, warning);
            });
        }
        if (header.dropped_events > 0) {
            append_number_member(json, "dropped_events",
                                 static_cast<std::int64_t>(header.dropped_events));
        }
        append_member(json, "displayTimeUnit", "ms");
        append_number_member(json, "baseTimeNanoseconds", base_ns_);
        put(json + ", \"traceEvents\": [");
    }

    /// Returns the start of an event: name, category, phase, place and time.
    std::string begin(std::string_view name, std::string_view category, const char *phase,
                      std::int64_t pid, std::int64_t thread, std::int64_t time_ns) {
        std::string json = is_first_ ? "\n{" : ",\n{";
        is_first_ = false;
        append_member(json, "ph", phase);
        if (!category.empty()) {
            append_member(json, "cat", category);
        }
        append_member(json, "name", name);
        append_number_member(json, "pid", pid);
        append_number_member(json, "tid", thread);
        append_key(json, "ts");
        append_micros(json, time_ns - base_ns_);
        return json;
    }

    static void append_micros(std::string &json, std::int64_t nanos) {
        char digits[40];
        std::snprintf(digits, sizeof digits, "%lld.%03lld", static_cast<long long>(nanos / 1000),
                      static_cast<long long>(nanos % 1000));
        json += digits;
    }

    /// Returns the start of an event of its thread, or of its device and stream.
    std::string begin(const Event &event, const char *phase) {
        const bool is_on_device = event.is_device_event() && event.device() != DeviceType::CPU;
        return begin(event.name(), event.category(), phase,
                     is_on_device ? event.device_index() : pid_,
                     is_on_device ? event.stream() : lanes_.thread(event), event.start_ns());
    }

    /// Writes the name of a process or thread of the trace, or of the device or stream in its place.
    void name(const char *kind, std::int64_t pid, std::int64_t thread, const std::string &title,
              const TraceHeader &header, const char *key = "name") {
        std::string json = begin(kind, "", "M", pid, thread, header.start_ns);
        append_key(json, "args");
        json += "{";
        append_member(json, key, title);
        put(json + "}}");
    }

    void name_threads(const std::vector<Event> &events, const TraceHeader &header) {
        std::set<std::uint64_t> threads;
        std::set<std::pair<std::int64_t, std::int64_t>> streams;
        for (const Event &event : events) {
            if (event.is_device_event() && event.device() != DeviceType::CPU) {
                streams.insert({event.device_index(), event.stream()});
            } else {
                threads.insert(event.thread_id());
            }
        }
        name("process_name", pid_, 0, header.title, header);
        name("process_labels", pid_, 0, "CPU", header, "labels");
        for (std::uint64_t thread : threads) {
            name("thread_name", pid_, static_cast<std::int64_t>(thread),
                 "thread " + integer_text(thread), header);
        }
        for (const auto &lane : lanes_.further()) {
            name("thread_name", pid_, lane.first,
                 "thread " + integer_text(lane.second) + ", overlapping", header);
        }
        for (const auto &stream : streams) {
            const std::string device = "GPU " + integer_text(stream.first);
            name("process_name", stream.first, 0, header.title, header);
            name("process_labels", stream.first, 0, device, header, "labels");
            name("thread_name", stream.first, stream.second,
                 "stream " + integer_text(stream.second), header);
        }
    }

    void write_device_event(const Event &event) {
        std::string json = begin(event, "X");
        append_key(json, "dur");
        append_micros(json, event.duration_ns());
        append_key(json, "args");
        json += "{";
        if (event.linked_correlation_id() != 0) {
            append_number_member(json, "External id",
                                 static_cast<std::int64_t>(event.linked_correlation_id()));
        }
        const auto correlation = static_cast<std::int64_t>(event.correlation_id());
        append_number_member(json, "correlation", correlation);
        const bool is_call = event.device() == DeviceType::CPU;
        if (!is_call) {
            append_number_member(json, "device", event.device_index());
            append_number_member(json, "stream", event.stream());
        }
        if (event.bytes() > 0) {
            append_number_member(json, "bytes", event.bytes());
            append_key(json, "memory bandwidth (GB/s)");
            const auto nanos = static_cast<double>(std::max<std::int64_t>(event.duration_ns(), 1));
            json += decimal_text(static_cast<double>(event.bytes()) / nanos);
        }
        const std::array<std::uint32_t, 6> &sizes = event.kernel_sizes();
        if (sizes[0] != 0) {
            append_number_member(json, "registers per thread", event.registers());
            append_key(json, "grid");
            append_json_integers(json, std::vector<std::uint32_t>(sizes.begin(), sizes.begin() + 3));
            append_key(json, "block");
            append_json_integers(json, std::vector<std::uint32_t>(sizes.begin() + 3, sizes.end()));
        }
        put(json + "}}");
        if (correlation != 0) {
            write_flow("ac2g", is_call ? "s" : "f", event, correlation);
        }
    }

    void write_scope(const Event &event, std::int64_t index) {
        std::string json = begin(event, "X");
        append_key(json, "dur");
        append_micros(json, event.duration_ns());
        append_key(json, "args");
        json += "{";
        const auto id = static_cast<std::int64_t>(event.correlation_id());
        append_number_member(json, "External id", id);
        append_number_member(json, "Record function id", id);
        append_number_member(json, "Ev Idx", index);
        if (event.sequence_number() >= 0) {
            append_number_member(json, "Sequence number", event.sequence_number());
            append_number_member(json, "Fwd thread id",
                                 static_cast<std::int64_t>(event.forward_thread_id()));
        }
        if (event.debug_handle() >= 0) {
            append_number_member(json, "Debug handle", event.debug_handle());
        }
        if (!event.module_hierarchy().empty()) {
            append_member(json, "Module Hierarchy", event.module_hierarchy());
        }
        if (!event.stack().empty()) {
            std::string stack;
            for (const std::string &frame : event.stack()) {
                stack += (stack.empty() ? "" : ";") + frame;
            }
            append_member(json, "Call stack", stack);
        }
        append_details(json, event.details());
        if (event.flops() > 0) {
            append_number_member(json, "flops", static_cast<std::int64_t>(event.flops()));
        }
        for (const auto &counter : event.counters()) {
            append_number_member(json, counter.first, static_cast<std::int64_t>(counter.second));
        }
        if (!event.is_finished()) {
            append_member(json, "finished", "false");
        }
        if (event.is_async()) {
            append_number_member(json, "End thread id",
                                 static_cast<std::int64_t>(event.end_thread_id()));
        }
        put(json + "}}");
    }

    void write_memory(const Event &event, std::int64_t index) {
        std::string json = begin(event, "i");
        append_member(json, "s", "t");
        append_key(json, "args");
        json += "{";
        append_number_member(json, "Ev Idx", index);
        append_number_member(json, "Device Type", static_cast<std::int64_t>(event.device()));
        append_number_member(json, "Device Id", event.device_index());
        append_number_member(json, "Addr", static_cast<std::int64_t>(event.address()));
        append_number_member(json, "Bytes", event.bytes());
        append_number_member(json, "Total Allocated", event.total_allocated());
        append_number_member(json, "Total Reserved", event.total_reserved());
        put(json + "}}");
    }

    /// Links each forward operator to its backward.
    void write_flows(const std::vector<Event> &events) {
        std::map<std::pair<std::uint64_t, std::int64_t>, const Event *> forward;
        std::int64_t flow = 0;
        for (const Event &event : events) {
            if (event.sequence_number() < 0) {
                continue;
            }
            if (event.forward_thread_id() == 0 && event.scope() == RecordScope::BACKWARD_FUNCTION) {
                continue; // its forward operator is unknown
            }
            if (event.forward_thread_id() == 0) {
                forward[{event.thread_id(), event.sequence_number()}] = &event;
                continue;
            }
            const auto found = forward.find({event.forward_thread_id(), event.sequence_number()});
            if (found != forward.end()) {
                write_flow("fwdbwd", "s", *found->second, flow);
                write_flow("fwdbwd", "f", event, flow);
                flow++;
            }
        }
    }

    void write_flow(const char *name, const char *phase, const Event &event, std::int64_t flow) {
        const bool is_on_device = event.device() != DeviceType::CPU;
        std::string json =
            begin(name, name, phase, is_on_device ? event.device_index() : pid_,
                  is_on_device ? event.stream() : lanes_.thread(event), event.start_ns());
        append_number_member(json, "id", flow);
        if (*phase == 'f') {
            append_member(json, "bp", "e");
        }
        put(json + "}");
    }

    void write_span(std::string_view name, const TraceHeader &header) {
        std::string json = is_first_ ? "\n{" : ",\n{";
        append_member(json, "ph", "X");
        append_member(json, "cat", "Trace");
        append_member(json, "name", name);
        append_member(json, "pid", "Spans");
        append_member(json, "tid", "PyTorch Profiler");
        append_key(json, "ts");
        append_micros(json, header.start_ns - base_ns_);
        append_key(json, "dur");
        append_micros(json, header.end_ns - header.start_ns);
        put(json + ", \"args\": {\"Op count\": 0}}");
    }

    std::FILE *file_;
    Lanes lanes_;
    std::int64_t base_ns_;
    std::int64_t pid_;
    bool is_first_ = true;
    bool is_written_ = true;
};

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_TRACE_JSON_HPP
