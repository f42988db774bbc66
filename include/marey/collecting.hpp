/// @file
/// How the records of all threads become the events of a profile that has ended.
#ifndef MAREY_COLLECTING_HPP
#define MAREY_COLLECTING_HPP

#include "devices.hpp"
#include "recording.hpp"
#include "stack.hpp"
#include "version.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// Resolves the numbers of names and the addresses of frames, and counts FLOP if that is wanted.
class Resolver {
public:
    Resolver(bool with_flops, const LoadedCode &loaded) : with_flops_(with_flops), symbols_(loaded) {}

    Event event(Record record, std::int64_t profile_start_ns) {
        std::string name = names(record.name);
        if (record.details != nullptr) {
            Details &details = *record.details;
            if (details.is_memory) {
                name = "[memory]";
            } else if (!details.name.empty()) {
                name = details.name;
            }
            if (with_flops_ && !details.inputs.empty()) {
                details.flops = operator_flops(name, details);
            }
            if (!details.keeps_inputs) {
                details.inputs.clear();
                details.kwargs.clear();
            }
            if (!details.frames.empty()) {
                for (std::size_t i = details.frames.size(); i-- > 0;) {
                    details.stack.push_back(symbols_.name(details.frames[i]));
                }
            } else {
                for (std::uint32_t caller : details.callers) {
                    details.stack.push_back(names(caller));
                }
            }
        }
        return Event(std::move(name), std::move(record), profile_start_ns);
    }

private:
    const std::string &names(std::uint32_t number) {
        const auto known = names_.find(number);
        return known != names_.end() ? known->second
                                     : names_.emplace(number, name_text(number)).first->second;
    }

    bool with_flops_;
    std::unordered_map<std::uint32_t, std::string> names_;
    Symbols symbols_;
};

/// Appends the events of `part`, or counts them as dropped where there is no memory for them.
inline void append_records(Shared &shared, std::vector<Record> &records, std::vector<Record> &&part) {
    if (records.empty()) {
        records.swap(part);
        return;
    }
    MAREY_TRY_ {
        records.insert(records.end(), std::make_move_iterator(part.begin()),
                       std::make_move_iterator(part.end()));
    }
    MAREY_CATCH_ALL_ { shared.dropped_events.fetch_add(part.size(), std::memory_order_relaxed); }
}

/// Takes the events of a profile from all threads. Those that are open end now.
inline std::vector<Record> take_records(Shared &shared, std::uint64_t profile, std::int64_t end_ns) {
    std::vector<Record> records;
    const std::uint32_t current = os_thread_id();
    for (const std::unique_ptr<Thread> &thread : shared.threads) {
        const ThreadGuard guard(*thread, current);
        if (!guard.is_acquired()) {
            count_dropped(shared);
            continue;
        }
        if (thread->profile != profile) {
            continue;
        }
        for (Record &record : thread->open) {
            record.end_ns = std::max(end_ns, record.start_ns);
            record.end_thread = record.start_thread;
            record.is_finished = false;
        }
        for (std::vector<Record> *part : {&thread->done, &thread->open}) {
            append_records(shared, records, std::move(*part));
            std::vector<Record>().swap(*part);
        }
        thread->profile = 0;
    }
    return records;
}

inline void sort_records(std::vector<Record> &records) {
    std::stable_sort(records.begin(), records.end(), [](const Record &one, const Record &other) {
        return one.start_ns != other.start_ns ? one.start_ns < other.start_ns : one.id < other.id;
    });
}

/// Returns the events of a profile, sorted and linked to each other.
inline std::vector<Event> resolved_events(std::vector<Record> records, std::int64_t start_ns,
                                          bool with_flops, const LoadedCode &loaded) {
    sort_records(records);
    link_device_events(records);
    Resolver resolver(with_flops, loaded);
    std::vector<Event> events;
    events.reserve(records.size());
    for (Record &record : records) {
        events.push_back(resolver.event(std::move(record), start_ns));
    }
    return events;
}

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_COLLECTING_HPP
