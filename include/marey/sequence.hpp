/// @file
/// Which thread ran the forward operator with a sequence number.
#ifndef MAREY_SEQUENCE_HPP
#define MAREY_SEQUENCE_HPP

#include "version.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// The threads of the last 65,536 sequence numbers. Any thread may call it at any time.
///
/// Threads may count for themselves, so that two forward operators have one number. Until a backward
/// operator has asked for the first, the thread is unknown then, and not the wrong one.
class ForwardThreads {
public:
    ForwardThreads()
        : slots_(static_cast<std::uint64_t *>(std::calloc(count, sizeof(std::uint64_t)))) {}
    ~ForwardThreads() { std::free(slots_); }
    ForwardThreads(const ForwardThreads &) = delete;
    ForwardThreads &operator=(const ForwardThreads &) = delete;

    /// Notes the thread of a forward operator.
    void add(std::uint64_t sequence, std::uint32_t thread) {
        if (slots_ == nullptr || sequence >= max_sequence) {
            return;
        }
        std::uint64_t *slot = &slots_[sequence % count];
        std::uint64_t known = __atomic_load_n(slot, __ATOMIC_RELAXED);
        std::uint64_t noted = 0;
        do {
            const bool is_contested = known >> sequence_shift == sequence + 1 &&
                                      (known & was_asked) == 0 &&
                                      (known & thread_mask) != thread;
            noted = (sequence + 1) << sequence_shift | (is_contested ? 0 : thread);
        } while (!__atomic_compare_exchange_n(slot, &known, noted, true, __ATOMIC_RELAXED,
                                              __ATOMIC_RELAXED));
    }

    /// Returns the thread of the forward operator, for a backward operator; 0 if it is unknown.
    std::uint64_t ask(std::uint64_t sequence) {
        if (slots_ == nullptr || sequence >= max_sequence) {
            return 0;
        }
        std::uint64_t *slot = &slots_[sequence % count];
        std::uint64_t known = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (known >> sequence_shift != sequence + 1) {
            return 0;
        }
        // Fails if another forward operator comes at this moment.
        __atomic_compare_exchange_n(slot, &known, known | was_asked, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
        return known & thread_mask;
    }

private:
    static constexpr std::size_t count = 65536;
    static constexpr std::uint64_t thread_mask = (1U << 22) - 1; // ids of Linux are less
    static constexpr std::uint64_t was_asked = 1U << 22;
    static constexpr unsigned sequence_shift = 23;
    static constexpr std::uint64_t max_sequence = (std::uint64_t{1} << 41) - 1;

    std::uint64_t *slots_; // number plus one, whether it was asked for, thread
};

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_SEQUENCE_HPP
