/// @file
/// Allocations as events of a profile: `reportMemory`, an allocator, and a memory resource.
#ifndef MAREY_MEMORY_HPP
#define MAREY_MEMORY_HPP

#include "switches.hpp"
#include "version.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

/// Records that `bytes` bytes at `address` were allocated, or released if the number is negative.
/// `total_allocated` and `total_reserved` are the bytes that the allocator has in use and has
/// obtained from the system; if the former is negative, it is the sum of the reports since the
/// profile was enabled. A replaced `operator new` may call this: what marey itself allocates is not
/// recorded.
inline void reportMemory(const void *address, std::int64_t bytes,
                         std::int64_t total_allocated = -1, std::int64_t total_reserved = 0,
                         DeviceType device = DeviceType::CPU, int device_index = -1) noexcept {
    if (!detail::is_listened_to()) {
        return;
    }
    detail::Shared *shared = detail::shared();
    if (shared == nullptr || (shared->listening & detail::listens_profile) == 0 ||
        (shared->options & detail::records_memory) == 0) {
        return;
    }
    MAREY_TRY_ {
        detail::Thread *known = detail::this_thread(*shared);
        if (known == nullptr || known->inside > 0 || known->disabled > 0) {
            return; // the caller may be `operator new`, for an event of marey
        }
        detail::Thread &thread = *known;
        const std::uint64_t profile = detail::profile_of_thread(*shared, thread);
        if (profile == 0) {
            return;
        }
        const detail::Inside inside(thread);
        const std::int64_t sum = shared->allocated_bytes.fetch_add(bytes) + bytes;
        detail::Record record;
        detail::Details &details = record.make_details();
        details.is_memory = true;
        details.address = reinterpret_cast<std::uintptr_t>(address);
        details.bytes = bytes;
        details.total_allocated = total_allocated < 0 ? sum : total_allocated;
        details.total_reserved = total_reserved;
        details.device = device;
        details.device_index = device_index;
        record.id = shared->next_id.fetch_add(1, std::memory_order_relaxed);
        detail::add_instant(*shared, thread, profile, std::move(record));
    }
    MAREY_CATCH_ALL_ { detail::count_dropped(*shared); }
}

/// An allocator of the standard library's form that reports what `Base` allocates. Containers copy,
/// move and swap the allocator as they would `Base`.
template <class T, class Base = std::allocator<T>> class Allocator {
public:
    /// The type of the elements.
    using value_type = T;
    /// The pointer type of `Base`.
    using pointer = typename std::allocator_traits<Base>::pointer;
    /// As of `Base`.
    /// @{
    using propagate_on_container_copy_assignment =
        typename std::allocator_traits<Base>::propagate_on_container_copy_assignment;
    using propagate_on_container_move_assignment =
        typename std::allocator_traits<Base>::propagate_on_container_move_assignment;
    using propagate_on_container_swap =
        typename std::allocator_traits<Base>::propagate_on_container_swap;
    using is_always_equal = typename std::allocator_traits<Base>::is_always_equal;
    /// @}

    /// The allocator of another type.
    template <class U> struct rebind {
        /// The allocator of `U`.
        using other =
            Allocator<U, typename std::allocator_traits<Base>::template rebind_alloc<U>>;
    };

    /// An allocator over a new `Base`.
    Allocator() = default;
    /// An allocator over a copy of `base`.
    explicit Allocator(const Base &base) : base_(base) {}
    /// An allocator over a copy of the base of `other`.
    template <class U, class OtherBase>
    Allocator(const Allocator<U, OtherBase> &other) : base_(other.base()) {}

    /// Allocates `count` elements and reports their bytes.
    pointer allocate(std::size_t count) {
        const pointer memory = std::allocator_traits<Base>::allocate(base_, count);
        reportMemory(address(memory), static_cast<std::int64_t>(count * sizeof(T)));
        return memory;
    }

    /// Releases `count` elements and reports their bytes.
    void deallocate(pointer memory, std::size_t count) {
        reportMemory(address(memory), -static_cast<std::int64_t>(count * sizeof(T)));
        std::allocator_traits<Base>::deallocate(base_, memory, count);
    }

    /// Makes an element, as `Base` does.
    template <class U, class... Arguments> void construct(U *element, Arguments &&...arguments) {
        std::allocator_traits<Base>::construct(base_, element,
                                               std::forward<Arguments>(arguments)...);
    }

    /// Ends an element, as `Base` does.
    template <class U> void destroy(U *element) {
        std::allocator_traits<Base>::destroy(base_, element);
    }

    /// The number of elements that `Base` can allocate at most.
    std::size_t max_size() const { return std::allocator_traits<Base>::max_size(base_); }

    /// The allocator that provides the memory.
    const Base &base() const { return base_; }

    /// The allocator of a copy of a container, as `Base` selects it.
    Allocator select_on_container_copy_construction() const {
        return Allocator(std::allocator_traits<Base>::select_on_container_copy_construction(base_));
    }

    /// Whether one can release what the other has allocated.
    friend bool operator==(const Allocator &one, const Allocator &other) {
        return one.base_ == other.base_;
    }
    /// The opposite of `==`.
    friend bool operator!=(const Allocator &one, const Allocator &other) { return !(one == other); }

private:
    static const void *address(const pointer &memory) {
        return memory == nullptr ? nullptr : std::addressof(*memory);
    }

    Base base_;
};

#if defined(__cpp_lib_memory_resource)

/// A memory resource that reports what another one allocates.
class MemoryResource : public std::pmr::memory_resource {
public:
    /// A resource over `upstream`, which must outlive it.
    explicit MemoryResource(std::pmr::memory_resource *upstream = std::pmr::get_default_resource())
        : upstream_(upstream) {}

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *memory = upstream_->allocate(bytes, alignment);
        reportMemory(memory, static_cast<std::int64_t>(bytes));
        return memory;
    }

    void do_deallocate(void *memory, std::size_t bytes, std::size_t alignment) override {
        reportMemory(memory, -static_cast<std::int64_t>(bytes));
        upstream_->deallocate(memory, bytes, alignment);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }

    std::pmr::memory_resource *upstream_;
};

#endif

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_MEMORY_HPP
