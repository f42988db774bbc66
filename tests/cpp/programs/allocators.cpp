// `marey::Allocator` in containers, over allocators of the standard library and with a state.
#include "report.hpp"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

// Memory of one of several pools, which containers take along.
template <class T, bool propagates> struct Pool {
    using value_type = T;
    using propagate_on_container_copy_assignment = std::integral_constant<bool, propagates>;
    using propagate_on_container_move_assignment = std::integral_constant<bool, propagates>;
    using propagate_on_container_swap = std::integral_constant<bool, propagates>;
    using is_always_equal = std::false_type;
    template <class U> struct rebind {
        using other = Pool<U, propagates>;
    };

    explicit Pool(int pool) : number(pool) {}
    template <class U> Pool(const Pool<U, propagates> &other) : number(other.number) {}
    T *allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
    void deallocate(T *memory, std::size_t count) { std::allocator<T>().deallocate(memory, count); }
    Pool select_on_container_copy_construction() const { return Pool(number + 100); }
    friend bool operator==(const Pool &one, const Pool &other) { return one.number == other.number; }
    friend bool operator!=(const Pool &one, const Pool &other) { return !(one == other); }
    template <class U> void construct(U *element) { ::new (element) U(number); }
    template <class U, class V> void construct(U *element, V &&value) { ::new (element) U(value); }
    template <class U> void destroy(U *) { destroyed++; }
    std::size_t max_size() const { return 1000; }

    static inline int destroyed = 0;
    int number;
};

template <bool propagates> using Reported = marey::Allocator<int, Pool<int, propagates>>;
using Plain = std::allocator_traits<marey::Allocator<int>>;

static_assert(Plain::is_always_equal::value);
static_assert(Plain::propagate_on_container_move_assignment::value);
static_assert(!Plain::propagate_on_container_swap::value);
static_assert(std::is_nothrow_move_assignable<std::vector<int, marey::Allocator<int>>>::value);

template <bool propagates> using List = std::vector<int, Reported<propagates>>;

template <bool propagates> List<propagates> list(int pool) {
    return List<propagates>({1, 2, 3}, Reported<propagates>(Pool<int, propagates>(pool)));
}

template <bool propagates> void assign() {
    List<propagates> target = list<propagates>(1), source = list<propagates>(2);
    const int *memory = source.data();
    target = source;
    const int copied = target.get_allocator().base().number;
    target = std::move(source);
    std::printf("copied %d, moved %d, same memory %d\n", copied,
                target.get_allocator().base().number, target.data() == memory);
    const List<propagates> copy(target);
    std::printf("a copy %d\n", copy.get_allocator().base().number);
}

} // namespace

int main() {
    marey::ProfilerConfig config;
    config.profile_memory = true;
    marey::enableProfiler(config, {marey::ActivityType::CPU});
    assign<true>();
    assign<false>();
    {
        const List<true> made(2, Reported<true>(Pool<int, true>(7)));
        std::printf("made %d %d, at most %zu\n", made[0], made[1],
                    std::allocator_traits<Reported<true>>::max_size(made.get_allocator()));
        Pool<int, true>::destroyed = 0;
    }
    std::printf("destroyed %d\n", Pool<int, true>::destroyed);
    List<true> one = list<true>(1), other = list<true>(2);
    one.swap(other);
    std::printf("swapped %d %d\n", one.get_allocator().base().number,
                other.get_allocator().base().number);
    one = List<true>(one.get_allocator());
    other = List<true>(other.get_allocator());
    report(*marey::disableProfiler());
}
