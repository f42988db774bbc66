// One profile per case; the name of the case is the argument. Prints the events.
#include "report.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#if defined(__cpp_lib_span) || __cplusplus >= 202002L
#include <span>
#define HAS_SPAN 1
#endif

namespace {

struct Image {
    std::vector<float> pixels;
    std::int64_t height, width, pitch;
};

template <class T> struct Matrix {
    std::vector<T> values;
    std::int64_t rows;
};

int evaluated = 0;

int count_evaluation() { return ++evaluated; }

} // namespace

template <> struct marey::InputTraits<Image> {
    static std::vector<std::int64_t> shape(const Image &image) {
        return {image.height, image.width};
    }
    static const char *dtype(const Image &) { return "float"; }
    static std::vector<std::int64_t> strides(const Image &image) { return {image.pitch, 1}; }
    static const float *data(const Image &image) { return image.pixels.data(); }
};

template <class T> struct marey::InputTraits<Matrix<T>> {
    static std::vector<std::int64_t> shape(const Matrix<T> &matrix) {
        return {matrix.rows, static_cast<std::int64_t>(matrix.values.size()) / matrix.rows};
    }
    static const char *dtype(const Matrix<T> &) { return "half"; }
};

namespace {

using marey::ActivityType;
using marey::ProfilerConfig;
using marey::ProfilerState;
using marey::RecordScope;

const std::set<ActivityType> host = {ActivityType::CPU};

// Ends the profile, prints it and writes its files.
void finish() {
    const auto result = marey::disableProfiler();
    report(*result);
    std::string ignored;
    result->save("trace.json", &ignored);
    result->save("run.marey", &ignored);
}

void metadata() {
    ProfilerConfig config(ProfilerState::KINETO);
    config.report_input_shapes = true;
    config.trace_id = "night \"7\"";
    marey::enableProfiler(config, host);
    const Image image = {{1, 2, 3, 4, 5, 6, 7, 8}, 2, 3, 4};
    const std::vector<Image> images = {image, image};
    {
        RECORD_FUNCTION("inputs", marey::inputs(image, 3, 0.5, true, std::string("mean"), images,
                                                std::vector<double>{1, 2}, std::array<int, 2>{5, 6},
                                                Matrix<short>{{1, 2, 3, 4}, 2}));
    }
    { RECORD_FUNCTION("list", images); }
    { RECORD_FUNCTION("one", image); }
    { RECORD_FUNCTION("numbers", std::vector<float>{1}); }
    { RECORD_FUNCTION("none", {}); }
    { RECORD_FUNCTION("sequence", {}, 17); }
    { RECORD_FUNCTION("both", {}, 18, 4711); }
    {
        RECORD_FUNCTION_WITH_KWARGS(
            "kwargs", image,
            (marey::Kwargs{{"stride", std::vector<int>{1, 2}}, {"groups", 1}, {"mode", "same"}}));
    }
    { RECORD_USER_SCOPE_WITH_KWARGS_ONLY("only kwargs", (marey::Kwargs{{"groups", 2}})); }
    { RECORD_EDGE_SCOPE_WITH_DEBUG_HANDLE_AND_INPUTS("edge", 99, image); }
    { RECORD_EDGE_SCOPE("plain edge"); }
    { RECORD_TORCHSCRIPT_FUNCTION("script", image); }
    { RECORD_USER_SCOPE("user"); }
    { RECORD_USER_SCOPE_WITH_INPUTS("user inputs", image); }
    { RECORD_USER_SCOPE(std::string("dynamic ") + std::to_string(1)); }
    { RECORD_USER_SCOPE(std::string("dynamic ") + std::to_string(2)); }
    // Several scopes of a block end in the reverse order.
    RECORD_USER_SCOPE("first");
    RECORD_USER_SCOPE("second");
    marey::RecordFunction manual(RecordScope::STATIC_RUNTIME_OP);
    manual.before("manual", image, 5);
    manual.end();
    manual.end();
    finish();
}

void concrete() {
    const Image image = {{1, 2, 3, 4, 5, 6, 7, 8}, 2, 3, 4};
    marey::set_record_concrete_inputs_enabled(true);
    std::printf("%d\n", marey::get_record_concrete_inputs_enabled());
    marey::enableProfiler(ProfilerConfig(), host);
    { RECORD_FUNCTION("values", marey::inputs(image, 3, 0.5, true, std::string("mean"))); }
    { RECORD_FUNCTION("many", std::vector<int>(1002, 7)); }
    { RECORD_FUNCTION("empty", std::vector<int>()); }
#if HAS_SPAN
    { RECORD_FUNCTION("span", std::span<const float>(image.pixels)); }
#endif
    marey::set_record_concrete_inputs_enabled(false);
    { RECORD_FUNCTION("without", marey::inputs(image)); }
    finish();
}

void quiet() {
    { RECORD_FUNCTION("nobody listens", marey::inputs(count_evaluation())); }
    marey_start("tree", nullptr, nullptr);
    const auto scopes = [] {
        RECORD_FUNCTION("no shapes", marey::inputs(count_evaluation()));
        RECORD_FUNCTION_WITH_KWARGS("no kwargs", marey::inputs(count_evaluation()),
                                    (marey::Kwargs{{"groups", count_evaluation()}}));
    };
    scopes(); // for a session alone
    marey_finalize(MAREY_ALL_SESSIONS, nullptr);
    marey::enableProfiler(ProfilerConfig(), host);
    scopes();
    std::printf("%d\n", evaluated);
    // A callback needs the inputs, and the profile still has none.
    const auto handle = marey::addGlobalCallback(
        marey::RecordFunctionCallback([](const marey::RecordFunction &scope) {
            evaluated = static_cast<int>(scope.inputs().size() + scope.kwargs().size());
            return std::unique_ptr<marey::ObserverContext>();
        }).needsInputs(true));
    { RECORD_FUNCTION_WITH_KWARGS("for a callback", 1, (marey::Kwargs{{"groups", 2}})); }
    marey::removeCallback(handle);
    std::printf("%d\n", evaluated);
    finish();
}

void filters() {
    ProfilerConfig config;
    marey::enableProfiler(config, host, {RecordScope::USER_SCOPE, RecordScope::KERNEL_FUNCTION_DTYPE});
    { RECORD_FUNCTION("function", {}); }
    { RECORD_USER_SCOPE("user"); }
    { RECORD_FUNCTION_WITH_SCOPE(RecordScope::KERNEL_FUNCTION_DTYPE, "dtype", {}); }
    {
        const auto result = marey::disableProfiler();
        report(*result);
        result->save("kinds.marey");
    }
    marey::enableProfiler(config, {}); // no activity of the host
    { RECORD_USER_SCOPE("user"); }
    report(*marey::disableProfiler());
    marey::enableProfiler(ProfilerConfig(ProfilerState::CPU), {});
    { RECORD_USER_SCOPE("user"); }
    report(*marey::disableProfiler());
    marey::enableProfiler(ProfilerConfig(ProfilerState::Disabled), host);
    std::printf("%d\n", marey::profilerEnabled());
    { RECORD_USER_SCOPE("user"); }
    report(*marey::disableProfiler());
    config.experimental_config.max_events = 10;
    marey::enableProfiler(config, host);
    for (int i = 0; i < 25; i++) {
        RECORD_USER_SCOPE("user");
    }
    finish();
}

// Another session has the scopes that the profile does not take.
void beside() {
    marey_start("tree", nullptr, nullptr);
    marey::enableProfiler(ProfilerConfig(), host, {RecordScope::USER_SCOPE});
    { RECORD_FUNCTION("function", {}); }
    std::thread([] {
        RECORD_MODULE("module");
        RECORD_USER_SCOPE("user");
    }).join();
    finish();
    marey_finalize(MAREY_ALL_SESSIONS, nullptr);
}

void nested(const char *name) {
    RECORD_FUNCTION(name, {});
    RECORD_MODULE("conv1");
    RECORD_FUNCTION("leaf", {});
}

void modules(bool is_verbose) {
    ProfilerConfig config;
    config.experimental_config.verbose = is_verbose;
    config.with_modules = !is_verbose;
    marey::enableProfiler(config, host);
    {
        RECORD_MODULE("model");
        RECORD_FUNCTION("forward", {});
        {
            RECORD_MODULE("encoder");
            nested("encode");
        }
        RECORD_FUNCTION("after", {});
    }
    { RECORD_FUNCTION("outside", {}); }
    finish();
}

__attribute__((noinline)) void *inner_function() {
    RECORD_FUNCTION("inner", {});
    return __builtin_return_address(0);
}

__attribute__((noinline)) void outer_function() {
    static void *volatile result = inner_function();
    (void)result;
}

void stacks() {
    ProfilerConfig config;
    config.with_stack = true;
    marey::enableProfiler(config, host);
    outer_function();
    finish();
}

void flops() {
    ProfilerConfig config;
    config.with_flops = true;
    marey::enableProfiler(config, host);
    const Matrix<float> a = {std::vector<float>(6), 2};  // 2 x 3
    const Matrix<float> b = {std::vector<float>(12), 3}; // 3 x 4
    { RECORD_FUNCTION("aten::mm", marey::inputs(a, b)); }
    { RECORD_FUNCTION("aten::addmm", marey::inputs(a, a, b)); }
    { RECORD_FUNCTION("linear", marey::inputs(a, Matrix<float>{std::vector<float>(15), 5})); }
    { RECORD_FUNCTION("aten::add", marey::inputs(a, a)); }
    { RECORD_FUNCTION("aten::relu", marey::inputs(a)); }
    const marey::Input images = {"float", {2, 4, 8, 8}, {}, "", {}, true};
    const marey::Input weights = {"float", {6, 2, 3, 3}, {}, "", {}, true};
    {
        RECORD_FUNCTION_WITH_KWARGS("aten::conv2d", marey::inputs(images, weights),
                                    (marey::Kwargs{{"stride", std::vector<int>{2, 2}},
                                                   {"padding", 1},
                                                   {"groups", 2}}));
    }
    const marey::Input batch = {"float", {5, 2, 3}, {}, "", {}, true};
    const marey::Input other = {"float", {5, 3, 4}, {}, "", {}, true};
    { RECORD_FUNCTION("bmm", marey::inputs(batch, other)); }
    const marey::Input one_batch = {"float", {1, 2, 3}, {}, "", {}, true};
    { RECORD_FUNCTION("aten::matmul", marey::inputs(one_batch, other)); }
    { RECORD_FUNCTION("aten::mm of other sizes", marey::inputs(a, a)); }
    { RECORD_FUNCTION("mm", marey::inputs(a, a)); } // fails in the program
    const marey::Input column = {"float", {3, 1}, {}, "", {}, true};
    const marey::Input row = {"float", {1, 4}, {}, "", {}, true};
    { RECORD_FUNCTION("aten::mul", marey::inputs(column, row)); }
    finish();
}

void memory() {
    ProfilerConfig config;
    config.profile_memory = true;
    marey::enableProfiler(config, host);
    int object = 0;
    marey::reportMemory(&object, 100);
    {
        std::vector<int, marey::Allocator<int>> list;
        list.reserve(25);
    }
    marey::reportMemory(&object, -100);
    marey::reportMemory(&object, 7, 70, 700, marey::DeviceType::CUDA, 1);
#if defined(__cpp_lib_memory_resource)
    marey::MemoryResource resource;
    resource.deallocate(resource.allocate(64), 64);
#endif
    finish();
    marey::enableProfiler(ProfilerConfig(), host);
    marey::reportMemory(&object, 100); // not requested
    report(*marey::disableProfiler());
}

void counters(const char *events) {
    ProfilerConfig config;
    const std::string list = events;
    for (std::size_t start = 0; start < list.size();) {
        const std::size_t end = std::min(list.find(',', start), list.size());
        config.experimental_config.performance_events.push_back(list.substr(start, end - start));
        start = end + 1;
    }
    marey::enableProfiler(config, host);
    {
        RECORD_FUNCTION("outer", {});
        {
            RECORD_FUNCTION("touches", {});
            // Beyond the threshold of malloc, so every page is new.
            const std::size_t pages = 4096;
            std::unique_ptr<char[]> memory(new char[pages * 4096]);
            for (std::size_t i = 0; i < pages; i++) {
                static_cast<volatile char *>(memory.get())[i * 4096] = 1;
            }
        }
        { RECORD_FUNCTION("nothing", {}); }
    }
    finish();
}

void device_metrics() {
    ProfilerConfig config;
    // In the order of XSigma's structure.
    config.experimental_config = {{"sm__cycles_active.avg", "no \"metric\""}, true, true, {}, false, true};
    marey::enableProfiler(config, host);
    {
        RECORD_FUNCTION("outer", {});
        std::thread([] { RECORD_FUNCTION("inner", {}); }).join();
    }
    finish();
}

// Each state and activity of the originals that marey has no events for.
void other_devices() {
    for (ProfilerState state : {ProfilerState::NVTX, ProfilerState::ITT, ProfilerState::PRIVATEUSE1,
                                ProfilerState::KINETO_PRIVATEUSE1_FALLBACK,
                                ProfilerState::KINETO_GPU_FALLBACK}) {
        marey::enableProfiler(ProfilerConfig(state), host);
        { RECORD_USER_SCOPE("user"); }
        report(*marey::disableProfiler());
    }
    for (ActivityType activity : {ActivityType::XPU, ActivityType::HPU, ActivityType::MTIA,
                                  ActivityType::PrivateUse1}) {
        marey::enableProfiler(ProfilerConfig(), {ActivityType::CPU, activity});
        { RECORD_USER_SCOPE("user"); }
        report(*marey::disableProfiler());
    }
}

void threads(bool all, bool joins) {
    ProfilerConfig config(all ? ProfilerState::KINETO_ONDEMAND : ProfilerState::KINETO);
    config.experimental_config.profile_all_threads = joins && all;
    marey::enableProfiler(config, host);
    std::thread([joins] {
        if (joins) {
            marey::enableProfilerInChildThread();
        }
        RECORD_USER_SCOPE("child");
    }).join();
    { RECORD_USER_SCOPE("main"); }
    finish();
}

void backward() {
    ProfilerConfig config;
    config.experimental_config.profile_all_threads = true;
    marey::enableProfiler(config, host);
    { RECORD_FUNCTION("aten::mul", {}, 1); }
    { RECORD_FUNCTION("aten::add", {}, 2); }
    std::thread([] {
        { RECORD_FUNCTION_WITH_SCOPE(RecordScope::BACKWARD_FUNCTION, "AddBackward0", {}, 2); }
        {
            RECORD_FUNCTION_WITH_SCOPE(RecordScope::BACKWARD_FUNCTION, "MulBackward0", {}, 1);
            RECORD_FUNCTION("aten::mul of backward", {}, 1);
        }
        { RECORD_FUNCTION_WITH_SCOPE(RecordScope::BACKWARD_FUNCTION, "AccumulateGrad", {}, 1); }
        { RECORD_FUNCTION_WITH_SCOPE(RecordScope::BACKWARD_FUNCTION, "Unknown", {}, 3); }
        { RECORD_FUNCTION("aten::add of a thread", {}, 4); }
    }).join();
    { RECORD_FUNCTION("aten::add with the same number", {}, 4); }
    { RECORD_FUNCTION_WITH_SCOPE(RecordScope::BACKWARD_FUNCTION, "Contested", {}, 4); }
    std::thread([] { RECORD_FUNCTION("aten::mul of the next step", {}, 1); }).join();
    { RECORD_FUNCTION_WITH_SCOPE(RecordScope::BACKWARD_FUNCTION, "MulBackward1", {}, 1); }
    finish();
}

void hostile_names() {
    ProfilerConfig config;
    marey::enableProfiler(config, host);
    { RECORD_USER_SCOPE("a \"quote\", a \\, a\nline and a \x01"); }
    { RECORD_USER_SCOPE(std::string("bad \xff\xc0\x80 \xed\xa0\x80 \xe2\x82")); }
    { RECORD_USER_SCOPE("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"); }
    { RECORD_USER_SCOPE(""); }
    { RECORD_USER_SCOPE(std::string_view("embedded \0 zero", 15)); }
    finish();
}

// Scopes with different names, which end in the same way.
void distinct_names(std::size_t count, const std::string &end) {
    marey::enableProfiler(ProfilerConfig(), host);
    for (std::size_t i = 0; i < count; i++) {
        RECORD_USER_SCOPE(std::to_string(i) + end);
    }
    const bool is_full = marey_name("a name that does not fit") == marey::detail::lost_name;
    const auto result = marey::disableProfiler();
    bool are_right = true;
    for (std::size_t i = 0; i < result->events().size(); i++) {
        are_right = are_right && result->events()[i].name() == std::to_string(i) + end;
    }
    std::printf("%zu %d %llu %d\n", result->events().size(), are_right,
                static_cast<unsigned long long>(result->dropped_events()), is_full);
}

// The events of the profile need more memory than the process may have.
void memory_limit() {
    constexpr std::size_t count = 1200000;
    constexpr rlim_t more_bytes = 160 << 20;
    marey::enableProfiler(ProfilerConfig(), host);
    { RECORD_USER_SCOPE("work"); }
    rlimit limit = {};
    getrlimit(RLIMIT_AS, &limit);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit low = {pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more_bytes, limit.rlim_max};
    setrlimit(RLIMIT_AS, &low);
    for (std::size_t i = 1; i < count; i++) {
        RECORD_USER_SCOPE("work");
    }
    const auto result = marey::disableProfiler();
    setrlimit(RLIMIT_AS, &limit);
    const std::uint64_t dropped = result->dropped_events();
    std::printf("%d %d %zu\n", result->events().size() + dropped == count, dropped > 0,
                result->warnings().size());
}

void unbalanced() {
    marey::enableProfiler(ProfilerConfig(), host);
    auto *never_ended = new marey::RecordFunction(RecordScope::USER_SCOPE);
    never_ended->before("never ended");
    auto *ended_late = new marey::RecordFunction(RecordScope::USER_SCOPE);
    ended_late->before("ended late");
    { RECORD_USER_SCOPE("inside"); }
    finish();
    delete ended_late; // after the profile
    delete never_ended;
    marey::enableProfiler(ProfilerConfig(), host);
    { RECORD_USER_SCOPE("next profile"); }
    report(*marey::disableProfiler());
}

void other_thread() {
    ProfilerConfig config;
    config.experimental_config.profile_all_threads = true;
    marey::enableProfiler(config, host);
    auto moved = std::make_unique<marey::RecordFunction>(RecordScope::USER_SCOPE);
    moved->before("moved");
    std::thread([&moved] {
        RECORD_USER_SCOPE("on the other thread");
        moved.reset();
    }).join();
    { RECORD_USER_SCOPE("after"); }
    finish();
}

#if defined(__cpp_exceptions)
void fail() {
    RECORD_USER_SCOPE("fails");
    throw std::runtime_error("expected");
}

struct Throwing {};
#endif

} // namespace

#if defined(__cpp_exceptions)
template <> struct marey::InputTraits<Throwing> {
    static std::vector<std::int64_t> shape(const Throwing &) { throw std::runtime_error("shape"); }
    static const char *dtype(const Throwing &) { return ""; }
};
#endif

namespace {

void overlapping() {
    marey::enableProfiler(ProfilerConfig(), host);
    {
        RECORD_USER_SCOPE("around");
        auto first = std::make_unique<marey::RecordFunction>();
        auto second = std::make_unique<marey::RecordFunction>();
        auto third = std::make_unique<marey::RecordFunction>();
        first->before("first", marey::inputs(1), 5);
        second->before("second");
        third->before("third");
        first.reset();
        second.reset();
        { RECORD_FUNCTION_WITH_SCOPE(RecordScope::BACKWARD_FUNCTION, "backward", {}, 5); }
        third.reset();
    }
    { RECORD_USER_SCOPE("after"); }
    finish();
}

// As the recorder's own session sees scopes that do not end as blocks do.
void disorder() {
    marey_start("tree", nullptr, nullptr);
    auto moved = std::make_unique<marey::RecordFunction>(RecordScope::USER_SCOPE);
    moved->before("moved");
    std::thread([&moved] {
        RECORD_USER_SCOPE("on the other thread");
        moved.reset();
    }).join();
    { RECORD_USER_SCOPE("after"); }
    auto first = std::make_unique<marey::RecordFunction>();
    auto second = std::make_unique<marey::RecordFunction>();
    first->before("same name", marey::inputs(1), 7);
    second->before("same name");
    first.reset();
    { RECORD_USER_SCOPE("inside the second"); }
    second.reset();
    { RECORD_USER_SCOPE("after"); }
    std::thread([&moved] {
        moved = std::make_unique<marey::RecordFunction>(RecordScope::USER_SCOPE);
        moved->before("of an ended thread");
    }).join();
    moved.reset();
    marey_finalize(MAREY_ALL_SESSIONS, nullptr);
}

void exceptions() {
#if defined(__cpp_exceptions)
    ProfilerConfig config;
    config.report_input_shapes = true;
    marey::enableProfiler(config, host);
    try {
        RECORD_USER_SCOPE("outer");
        fail();
    } catch (const std::runtime_error &) {
        RECORD_USER_SCOPE("handler");
    }
    { RECORD_FUNCTION("throwing inputs", marey::inputs(Throwing())); }
    finish();
#endif
}

void many_threads() {
    constexpr int thread_count = 64;
    constexpr int scopes = 500;
    ProfilerConfig config;
    config.experimental_config.profile_all_threads = true;
    marey::enableProfiler(config, host);
    std::atomic<bool> stops{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; i++) {
        threads.emplace_back([&stops, i] {
            for (int scope = 0; scope < scopes; scope++) {
                RECORD_USER_SCOPE("outer");
                RECORD_FUNCTION("inner", marey::inputs(scope), i);
            }
            while (i < 2 && !stops) { // also while the profile ends
                RECORD_USER_SCOPE("tail");
            }
        });
    }
    for (int i = 2; i < thread_count; i++) {
        threads[static_cast<std::size_t>(i)].join();
    }
    const auto result = marey::disableProfiler();
    stops = true;
    threads[0].join();
    threads[1].join();
    std::int64_t inner = 0;
    std::set<std::uint64_t> ids, thread_ids;
    for (const marey::Event &event : result->events()) {
        inner += event.name() == "inner";
        ids.insert(event.correlation_id());
        thread_ids.insert(event.thread_id());
    }
    std::printf("%d %d %zu %llu\n", ids.size() == result->events().size(),
                inner >= (thread_count - 2) * scopes, thread_ids.size(),
                static_cast<unsigned long long>(result->dropped_events()));
    report(*marey::disableProfiler()); // nothing is left of it
}

void trace_ids() {
    ProfilerConfig config;
    config.trace_id = "of the first";
    marey::enableProfiler(config, host);
    { RECORD_USER_SCOPE("work"); }
    marey::disableProfiler()->save("first.marey");
    marey::enableProfiler(ProfilerConfig(), host);
    { RECORD_USER_SCOPE("work"); }
    marey::disableProfiler()->save("second.marey");
}

void twice() {
    marey::enableProfiler(ProfilerConfig(), host);
    marey::enableProfiler(ProfilerConfig(), host);
    { RECORD_USER_SCOPE("kept"); }
    finish();
    const auto none = marey::disableProfiler();
    std::string error;
    const bool is_saved = none->save("none.json", &error);
    std::printf("%d %s\n", is_saved, error.c_str());
}

void saves() {
    marey::enableProfiler(ProfilerConfig(), host);
    { RECORD_USER_SCOPE("kept"); }
    const auto result = marey::disableProfiler();
    std::string error;
    for (const char *path : {"missing/trace.json", "a.json", "a.json", "exists.marey", "a.marey",
                             "b.marey"}) {
        const bool is_saved = result->save(path, &error);
        std::printf("%s|%d|%s\n", path, is_saved, error.c_str());
    }
}

// What a recorder's own session sees of the scopes, without a profile.
void session() {
    marey_start("tree", nullptr, nullptr);
    {
        RECORD_MODULE("model");
        RECORD_FUNCTION("forward", {});
        MAREY_SCOPE("plain");
        RECORD_USER_SCOPE("user");
    }
    {
        const marey::DisableRecordFunctionGuard guard;
        RECORD_MODULE("guarded module");
        RECORD_FUNCTION("guarded", {});
    }
    marey::enableRecordFunction(false);
    { RECORD_MODULE("module while off"); }
    marey::enableRecordFunction(true);
    marey_finalize(MAREY_ALL_SESSIONS, nullptr);
}

} // namespace

int main(int argc, char **argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    const std::pair<const char *, void (*)()> cases[] = {
        {"metadata", metadata},
        {"concrete", concrete},
        {"quiet", quiet},
        {"filters", filters},
        {"beside", beside},
        {"verbose", [] { modules(true); }},
        {"modules", [] { modules(false); }},
        {"stacks", stacks},
        {"flops", flops},
        {"memory", memory},
        {"device_metrics", device_metrics},
        {"other_devices", other_devices},
        {"threads", [] { threads(true, true); }},
        {"ondemand", [] { threads(true, false); }},
        {"main_thread", [] { threads(false, false); }},
        {"joined_thread", [] { threads(false, true); }},
        {"backward", backward},
        {"hostile_names", hostile_names},
        {"a_million_names", [] { distinct_names(1000000, ""); }},
        // More bytes than the recorder's table of names has room for (64 MiB).
        {"long_names", [] { distinct_names(20000, std::string(2000, 'x')); }},
        {"memory_limit", memory_limit},
        {"unbalanced", unbalanced},
        {"other_thread", other_thread},
        {"disorder", disorder},
        {"overlapping", overlapping},
        {"exceptions", exceptions},
        {"many_threads", many_threads},
        {"trace_ids", trace_ids},
        {"twice", twice},
        {"saves", saves},
        {"session", session},
    };
    if (name == "counters" && argc > 2) {
        counters(argv[2]);
        return 0;
    }
    for (const auto &each : cases) {
        if (name == each.first) {
            each.second();
            return 0;
        }
    }
    return 1;
}
