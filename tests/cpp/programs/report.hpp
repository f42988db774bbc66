// Prints the events of a profile as lines of JSON, by their accessors.
#pragma once

#include <marey.hpp>

#include <cstdio>
#include <string>

inline std::string numbers(const std::vector<std::vector<std::int64_t>> &lists) {
    std::string json;
    marey::detail::append_json_list(json, lists, [](std::string &to, const auto &list) {
        marey::detail::append_json_integers(to, list);
    });
    return json;
}

inline std::string texts(const std::vector<std::string> &list) {
    std::string json;
    marey::detail::append_json_list(json, list, [](std::string &to, const std::string &text) {
        marey::detail::append_json_text(to, text);
    });
    return json;
}

inline void member(std::string &line, const char *key, const std::string &json) {
    line += (line.size() == 1 ? "\"" : ", \"") + std::string(key) + "\": " + json;
}

inline std::string event_json(const marey::Event &event) {
    std::string line = "{";
    member(line, "name", texts({event.name()}));
    member(line, "start_us", std::to_string(event.start_us()));
    member(line, "duration_us", std::to_string(event.duration_us()));
    member(line, "duration_ns", std::to_string(event.duration_ns()));
    member(line, "thread", std::to_string(event.thread_id()));
    member(line, "end_thread", std::to_string(event.end_thread_id()));
    member(line, "is_async", event.is_async() ? "true" : "false");
    member(line, "is_finished", event.is_finished() ? "true" : "false");
    member(line, "scope", std::to_string(static_cast<int>(event.scope())));
    member(line, "id", std::to_string(event.correlation_id()));
    member(line, "sequence", std::to_string(event.sequence_number()));
    member(line, "forward_thread", std::to_string(event.forward_thread_id()));
    member(line, "debug_handle", std::to_string(event.debug_handle()));
    member(line, "shapes", numbers(event.shapes()));
    member(line, "dtypes", texts(event.dtypes()));
    member(line, "strides", numbers(event.strides()));
    member(line, "values", texts(event.concrete_inputs()));
    std::string kwargs = "{";
    for (const marey::Keyword &keyword : event.kwargs()) {
        marey::detail::append_member(kwargs, keyword.key, keyword.text);
    }
    member(line, "kwargs", kwargs + "}");
    member(line, "stack", texts(event.stack()));
    member(line, "modules", texts({event.module_hierarchy()}));
    std::string counters = "{";
    for (const auto &counter : event.counters()) {
        marey::detail::append_number_member(counters, counter.first,
                                            static_cast<std::int64_t>(counter.second));
    }
    member(line, "counters", counters + "}");
    member(line, "flops", std::to_string(event.flops()));
    member(line, "is_memory", event.is_memory() ? "true" : "false");
    member(line, "bytes", std::to_string(event.bytes()));
    member(line, "address", std::to_string(event.address()));
    member(line, "total_allocated", std::to_string(event.total_allocated()));
    member(line, "total_reserved", std::to_string(event.total_reserved()));
    member(line, "category", texts({event.category()}));
    member(line, "stream", std::to_string(event.stream()));
    member(line, "linked_id", std::to_string(event.linked_correlation_id()));
    std::string sizes;
    marey::detail::append_json_integers(sizes, event.kernel_sizes());
    member(line, "sizes", sizes);
    member(line, "registers", std::to_string(event.registers()));
    member(line, "device", std::to_string(static_cast<int>(event.device())));
    member(line, "device_index", std::to_string(event.device_index()));
    return line + "}";
}

// Prints the result as one JSON object.
inline void report(const marey::ProfilerResult &result) {
    std::string json;
    marey::detail::append_json_list(json, result.events(), [](std::string &to, const auto &event) {
        to += event_json(event);
    });
    std::printf("{\"events\": %s, \"warnings\": %s, \"dropped\": %llu, \"trace_id\": %s}\n",
                json.c_str(), texts(result.warnings()).c_str(),
                static_cast<unsigned long long>(result.dropped_events()),
                texts({result.trace_id()}).c_str());
}
