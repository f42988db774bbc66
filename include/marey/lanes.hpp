/// @file
/// The lanes of a trace: events of a thread that overlap without nesting are beside each other.
#ifndef MAREY_LANES_HPP
#define MAREY_LANES_HPP

#include "event.hpp"
#include "version.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// The place of each event of the host, as a number of a thread. Perfetto drops an event that overlaps
/// another one of its thread without nesting, so a scope that ended late has a thread of its own.
class Lanes {
public:
    /// `events` are in the order of their starts and outlive the object.
    explicit Lanes(const std::vector<Event> &events) : first_(events.data()) {
        numbers_.reserve(events.size());
        for (const Event &event : events) {
            numbers_.push_back(place(event));
        }
    }

    /// Returns the thread of an event in the trace: its own id, or a number above all ids.
    std::int64_t thread(const Event &event) const {
        return number(event.thread_id(), numbers_[static_cast<std::size_t>(&event - first_)]);
    }

    /// Returns the further threads: the number in the trace and the id of the thread.
    std::map<std::int64_t, std::uint64_t> further() const {
        std::map<std::int64_t, std::uint64_t> threads;
        for (const auto &of_thread : ends_) {
            for (std::size_t lane = 1; lane < of_thread.second.size(); lane++) {
                threads[number(of_thread.first, lane)] = of_thread.first;
            }
        }
        return threads;
    }

private:
    static std::int64_t number(std::uint64_t thread, std::size_t lane) {
        constexpr std::size_t ids = 1U << 22; // of threads in Linux
        return static_cast<std::int64_t>(thread + lane * ids);
    }

    std::size_t place(const Event &event) {
        if (event.device() != DeviceType::CPU || event.is_memory()) {
            return 0; // of a stream, or an instant
        }
        std::vector<std::vector<std::int64_t>> &lanes = ends_[event.thread_id()];
        std::size_t lane = 0;
        for (; lane < lanes.size(); lane++) {
            std::vector<std::int64_t> &around = lanes[lane];
            while (!around.empty() && around.back() <= event.start_ns()) {
                around.pop_back();
            }
            if (around.empty() || event.end_ns() <= around.back()) {
                break;
            }
        }
        if (lane == lanes.size()) {
            lanes.emplace_back();
        }
        lanes[lane].push_back(event.end_ns());
        return lane;
    }

    const Event *first_;
    std::vector<std::size_t> numbers_;
    std::map<std::uint64_t, std::vector<std::vector<std::int64_t>>> ends_; // of the open events
};

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_LANES_HPP
