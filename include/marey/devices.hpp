/// @file
/// Device activities and launching calls of a profile, read from the run that the recorder wrote.
#ifndef MAREY_DEVICES_HPP
#define MAREY_DEVICES_HPP

#include "recording.hpp"
#include "version.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// Values of `marey_device_event_t::kind`.
constexpr std::int32_t device_call = -1;
constexpr std::int32_t device_synchronisation = 3;

/// Returns the category of a device event in traces, null for an unknown kind.
inline const char *device_category(const marey_device_event_t &event) {
    constexpr const char *categories[] = {"kernel", "gpu_memcpy", "gpu_memset", "cuda_sync",
                                          "overhead"};
    if (event.kind == device_call) {
        const bool is_runtime = event.name_len > 4 && std::strncmp(event.name, "cuda", 4) == 0;
        return is_runtime ? "cuda_runtime" : "cuda_driver";
    }
    return event.kind >= 0 && event.kind < 5 ? categories[event.kind] : nullptr;
}

/// Returns the name of a device event, of a synchronisation as PyTorch's profiler has it.
inline std::string device_event_name(const marey_device_event_t &event) {
    std::string name(event.name, event.name_len);
    const std::string end = " Synchronize";
    const std::size_t place = name.rfind(end);
    if (event.kind == device_synchronisation && place != std::string::npos &&
        place + end.size() == name.size()) {
        name.replace(place, end.size(), " Sync");
    }
    return name;
}

/// The device events of a run that are being read.
struct DeviceReader {
    std::vector<Record> *records;
    std::int64_t clock_offset_ns; // from CLOCK_MONOTONIC to 1970
    std::int64_t start_ns;        // of the profile
    bool has_synchronisations;
};

inline void receive_device_event(void *context, const marey_device_event_t *event) {
    DeviceReader &reader = *static_cast<DeviceReader *>(context);
    Record record;
    record.start_ns = event->start_nanos + reader.clock_offset_ns;
    const char *category = device_category(*event);
    if (category == nullptr || record.start_ns < reader.start_ns ||
        (event->kind == device_synchronisation && !reader.has_synchronisations)) {
        return;
    }
    record.end_ns = record.start_ns + static_cast<std::int64_t>(event->duration_nanos);
    record.id = event->correlation;
    record.start_thread = record.end_thread = event->thread;
    Details &details = record.make_details();
    details.category = category;
    details.name = device_event_name(*event);
    details.bytes = static_cast<std::int64_t>(event->bytes);
    if (event->kind != device_call) {
        details.device = DeviceType::CUDA;
        details.device_index = static_cast<std::int32_t>(event->device);
        details.stream = event->stream == UINT32_MAX ? -1 : std::int64_t{event->stream};
    }
    std::copy(std::begin(event->sizes), std::end(event->sizes), details.sizes.begin());
    details.registers = event->registers;
    reader.records->push_back(std::move(record));
}

/// Links calls to the innermost scopes around them, and activities to the scopes of their calls.
/// `records` are in the order of their starts.
inline void link_device_events(std::vector<Record> &records) {
    std::unordered_map<std::uint64_t, std::vector<const Record *>> open; // by thread
    std::unordered_map<std::uint64_t, std::uint64_t> scopes;             // by correlation
    for (Record &record : records) {
        std::vector<const Record *> &around = open[record.start_thread];
        while (!around.empty() && around.back()->end_ns <= record.start_ns) {
            around.pop_back();
        }
        const bool is_device_event =
            record.details != nullptr && record.details->category != nullptr;
        if (!is_device_event) {
            around.push_back(&record);
        } else if (record.start_thread != 0 && !around.empty()) {
            record.details->linked_id = around.back()->id;
            scopes[record.id] = around.back()->id;
        }
    }
    for (Record &record : records) {
        if (record.details != nullptr && record.details->category != nullptr && record.id != 0) {
            const auto scope = scopes.find(record.id);
            record.details->linked_id = scope == scopes.end() ? 0 : scope->second;
        }
    }
}

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_DEVICES_HPP
