/* Sessions, data and metrics of marey/proton.hpp. */
#include "case.hpp"

#include <sstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

using namespace proton;

/* The documented names with their documented types. */
static_assert(std::is_same_v<decltype(Context::name), std::string>);
static_assert(std::is_same_v<decltype(&ContextSource::getContexts), std::vector<Context> (ContextSource::*)()>);
static_assert(std::is_same_v<decltype(&ContextSource::setState), void (ContextSource::*)(std::optional<Context>)>);
static_assert(std::is_same_v<decltype(&ContextSource::getDepth), size_t (ContextSource::*)()>);
static_assert(std::is_base_of_v<Context, Scope> && std::is_same_v<decltype(Scope::scopeId), size_t>);
static_assert(std::is_same_v<decltype(Scope::scopeIdCounter), std::atomic<size_t>>);
static_assert(std::is_same_v<decltype(&Scope::getNewScopeId), size_t (*)()>);
static_assert(std::is_same_v<decltype(&ScopeInterface::enterScope), void (ScopeInterface::*)(const Scope &)>);
static_assert(std::is_same_v<decltype(&ScopeInterface::exitScope), void (ScopeInterface::*)(const Scope &)>);
static_assert(std::is_same_v<decltype(&OpInterface::enterOp), void (OpInterface::*)(const Scope &)>);
static_assert(std::is_same_v<decltype(&OpInterface::exitOp), void (OpInterface::*)(const Scope &)>);
static_assert(std::is_base_of_v<ScopeInterface, Data> && std::is_abstract_v<Data>);
static_assert(std::is_same_v<decltype(&Data::addOp), size_t (Data::*)(size_t, const std::string &)>);
static_assert(std::is_same_v<decltype(&Data::addMetric), void (Data::*)(size_t, std::shared_ptr<Metric>)>);
static_assert(std::is_same_v<decltype(&Data::addMetrics),
                             void (Data::*)(size_t, const std::map<std::string, MetricValueType> &)>);
static_assert(std::is_same_v<decltype(&Data::dump), void (Data::*)(OutputFormat)>);
static_assert(std::is_same_v<MetricValueType, std::variant<uint64_t, int64_t, double, std::string>>);
static_assert(std::is_same_v<decltype(&Session::activate), void (Session::*)()>);
static_assert(std::is_same_v<decltype(&Session::deactivate), void (Session::*)()>);
static_assert(std::is_same_v<decltype(&Session::finalize), void (Session::*)(OutputFormat)>);
static_assert(std::is_same_v<decltype(&Session::getContextDepth), size_t (Session::*)()>);
static_assert(std::is_base_of_v<Singleton<SessionManager>, SessionManager>);
static_assert(std::is_same_v<decltype(&Profiler::start), Profiler *(Profiler::*)()>);
static_assert(std::is_same_v<decltype(&Profiler::flush), Profiler *(Profiler::*)()>);
static_assert(std::is_same_v<decltype(&Profiler::stop), Profiler *(Profiler::*)()>);
static_assert(std::is_same_v<decltype(&Profiler::registerData), Profiler *(Profiler::*)(Data *)>);
static_assert(std::is_same_v<decltype(&Profiler::unregisterData), Profiler *(Profiler::*)(Data *)>);
static_assert(std::is_base_of_v<Profiler, CuptiProfiler> && std::is_base_of_v<ThreadLocalOpInterface, CuptiProfiler>);

static void contexts() {
    const Context a("a"), b("b");
    CHECK(a == a && a != b && a < b && b > a && a <= a && b >= a);
    const size_t id = Scope::getNewScopeId();
    CHECK(Scope("next").scopeId == id + 1 && Scope(7, "seven").scopeId == 7);

    ShadowContextSource source;
    CHECK(source.getDepth() == 0 && source.getContexts().empty());
    const size_t session = begin("contexts");
    {
        const Block outer("outer");
        marey::Scope inner("inner of marey.h");
        source.setState(Context("state"));
        const std::vector<Context> expected{"outer", "inner of marey.h", "state"};
        CHECK(source.getContexts() == expected);
        CHECK(source.getDepth() == 2 && manager().getContextDepth(session) == 2);
        source.setState(Context("another"));
        CHECK(source.getContexts().back().name == "another");
        source.setState(std::nullopt);
        CHECK(source.getContexts().size() == 2);
    }
    end(session);
}

/* Metrics of scopes that are open, exited, and on another thread; operators; states. */
static void tree() {
    const size_t session = begin("tree");
    size_t later = 0;
    {
        const Block outer("outer");
        manager().addMetrics(outer.id(), {{"energy (J)", 1.5}, {"device (pty)", std::string("north")}});
        for (int i = 0; i < 3; ++i) {
            const Block inner("inner");
            later = inner.id();
            std::thread([&] { manager().addMetrics(later, {{"items", int64_t{2}}}); }).join();
        }
        manager().setState(Context("warm"));
        const Scope op("kernel");
        manager().enterOp(op);
        manager().exitOp(op);
        manager().setState(std::nullopt);
        MAREY_SCOPE("of marey.h");
    }
    manager().addMetrics(later, {{"items", int64_t{4}}, {"bytes", uint64_t{1} << 63}});
    end(session);
}

/* Values reach the active sessions, each once, and directly added ones reach their data alone. */
static void sessions() {
    const size_t first = begin("first"), second = begin("second");
    CHECK(first != second && begin("first") == first);
    auto owned = std::make_unique<TreeData>("third", nullptr);
    TreeData &third = *owned;
    const size_t last = manager().addSession(static_cast<CuptiProfiler *>(nullptr),
                                             std::unique_ptr<ShadowContextSource>(), std::move(owned));
    manager().activateSession(last);
    {
        const Block both("both");
        manager().addMetrics(both.id(), {{"items", int64_t{1}}});
        third.addMetric(both.id(), std::make_shared<FlexibleMetric>("alone", 0.5));
        const size_t op = third.addOp(both.id(), "op");
        third.addMetrics(op, {{"alone", 0.25}});
    }
    manager().deactivateSession(second);
    {
        const Block one("one");
        manager().addMetrics(one.id(), {{"items", int64_t{1}}});
    }
    manager().activateAllSessions();
    const Scope again("again");
    manager().enterScope(again);
    manager().exitScope(again);
    manager().deactivateAllSessions();
    manager().finalizeAllSessions();
}

static void trace() {
    const size_t session = begin("events", "shadow", "trace");
    {
        const Block outer("outer");
        manager().addMetrics(outer.id(), {{"items", int64_t{3}}});
        const Block inner("inner");
    }
    manager().finalizeSession(session, "chrome_trace");
    // A source of the program's own: only this session has its paths.
    auto source = std::make_unique<ShadowContextSource>();
    TraceData data("run", source.get(), OutputFormat::Run);
    source->enterScope(Scope("of the source"));
    source->exitScope(Scope("of the source"));
    data.dump(OutputFormat::Run);
}

static void metrics() {
    FlexibleMetric sum("sum", int64_t{2});
    sum.updateValue(0, int64_t{3});
    sum.updateMetric(FlexibleMetric("sum", int64_t{5}));
    CHECK(std::get<int64_t>(sum.getValue(0)) == 10);
    FlexibleMetric property("kind", std::string("a"), true);
    property.updateValue(0, std::string("b"));
    CHECK(std::get<std::string>(property.getValues()[0]) == "b" && property.isProperty(0));
    FlexibleMetric number("number", 0.5, false, true);
    number.updateValue(0, 0.25);
    CHECK(std::get<double>(number.getValue(0)) == 0.75 && number.isExclusive(0));
    CHECK(sum.getName() == "FlexibleMetric" && sum.getValueName(0) == "sum");
    FlexibleMetric large("large", std::numeric_limits<int64_t>::max());
    large.updateValue(0, int64_t{1});
    CHECK(std::get<int64_t>(large.getValue(0)) == std::numeric_limits<int64_t>::max());
    FlexibleMetric unsigned_large("unsigned", uint64_t{1} << 63);
    unsigned_large.updateValue(0, uint64_t{1} << 63);
    CHECK(std::get<uint64_t>(unsigned_large.getValue(0)) == std::numeric_limits<uint64_t>::max());
    struct NoValues : Metric {
        NoValues() : Metric(MetricKind::Flexible, 0) {}
        const std::string getName() const override { return "NoValues"; }
        const std::string getValueName(int) const override { return ""; }
        bool isProperty(int) const override { return false; }
        bool isExclusive(int) const override { return false; }
    } none;
    none.updateValue(3, 1.5);
    CHECK(std::get<double>(none.getValue(3)) == 1.5);

    KernelMetric kernel(100, 350, 1, 2, static_cast<uint64_t>(DeviceType::CUDA));
    kernel.updateMetric(KernelMetric(400, 450, 1, 2, static_cast<uint64_t>(DeviceType::CUDA)));
    CHECK(std::get<uint64_t>(kernel.getValue(KernelMetric::Duration)) == 300);
    CHECK(std::get<uint64_t>(kernel.getValue(KernelMetric::Invocations)) == 2);
    const PCSamplingMetric stalls(PCSamplingMetric::StalledWait, 8, 3);
    CHECK(stalls.getValueName(PCSamplingMetric::StalledWait) == "stalled_wait");
    CHECK(stalls.getKind() == MetricKind::PCSampling);

    // Without a source a scope's name is its path.
    TreeData data("kernels");
    const Scope scope("launch");
    data.enterScope(scope);
    const size_t op = data.addOp(scope.scopeId, "matmul");
    data.exitScope(scope);
    data.addMetric(op, std::make_shared<KernelMetric>(kernel));
    data.addMetric(op, std::make_shared<PCSamplingMetric>(stalls));
    // Another type than before: refused and counted.
    data.addMetrics(scope.scopeId, {{"mixed", int64_t{1}}});
    data.addMetrics(scope.scopeId, {{"mixed", 0.5}});
    data.addMetrics(123456789, {{"ignored", 0.5}});
    data.dump(OutputFormat::HatchetMsgPack);
    data.addMetrics(op, {{"after the end", 0.5}});
}

#ifdef __cpp_exceptions
template <typename Function> static void printError(Function function) {
    try {
        function();
        std::puts("no error");
    } catch (const std::runtime_error &error) {
        std::puts(error.what());
    }
}
#else
template <typename Function> static void printError(Function function) { function(); }
#endif

static void errors() {
    printError([] { manager().addSession("x", "roctracer", "", "shadow", "tree"); });
    printError([] { manager().addSession("x", "", "", "stack", "tree"); });
    printError([] { manager().addSession("x", "", "", "shadow", "table"); });
    printError([] { manager().activateSession(99); });
    printError([] { parseOutputFormat("csv"); });
    printError([] {
        FlexibleMetric metric("a", 0.5);
        metric.updateValue(0, int64_t{1});
    });
    printError([] { CuptiProfiler::instance().enablePCSampling().start(); });
    CuptiProfiler::instance().disablePCSampling();
    const size_t session = begin("mended");
    printError([&] { manager().finalizeSession(session, OutputFormat::ChromeTrace); });
    end(session);
    // A file in the place of a folder.
    printError([] { end(begin("mended.hatchet/x")); });
}

/* Values for scopes that have been forgotten are counted; memory has a bound. */
static void late() {
    TreeData data("late");
    const Scope first("first");
    data.enterScope(first);
    data.exitScope(first);
    for (int i = 0; i < 70000; ++i) {
        const Scope scope("scope");
        data.enterScope(scope);
        data.exitScope(scope);
    }
    data.addMetrics(first.scopeId, {{"items", int64_t{1}}, {"more", int64_t{1}}});
    data.dump(OutputFormat::Hatchet);
}

static void forked() {
    const size_t session = begin("forked");
    const Block outer("outer");
    std::atomic<bool> ends{false};
    std::thread busy([&] {
        while (!ends) {
            const Block scope("busy");
            manager().addMetrics(scope.id(), {{"items", int64_t{1}}});
        }
    });
    for (int i = 0; i < 20; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            { const Block scope("in the child"); }
            end(session);
            _exit(0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    ends = true;
    busy.join();
    end(session);
}

static void threads() {
    const size_t tree = begin("threads"), events = begin("threads-trace", "shadow", "trace");
    std::vector<std::thread> workers;
    for (int i = 0; i < 16; ++i) {
        workers.emplace_back([&, i] {
            for (int j = 0; j < 200; ++j) {
                const Block outer("outer");
                const Block inner(i % 2 == 0 ? "even" : "odd");
                manager().addMetrics(inner.id(), {{"items", int64_t{1}}});
                if (j % 50 == i % 50) {
                    manager().deactivateSession(events);
                    manager().activateSession(events);
                }
            }
        });
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    manager().finalizeSession(events, OutputFormat::ChromeTrace);
    end(tree);
}

/* Names with quotes, invalid UTF-8 and zero bytes; exits without an entry; scopes left on threads. */
static void hostile() {
    const size_t session = begin("hostile");
    { const Block scope("\"quoted\" \\ \xff\xfe"); }
    { const Block scope(""); }
    manager().exitScope(Scope("never entered"));
    manager().exitOp(Scope("never entered"));
    std::thread([] { manager().enterScope(Scope("left")); }).join();
    const Scope reused("reused");
    manager().enterScope(reused);
    manager().enterScope(reused);
    manager().exitScope(reused);
    manager().exitScope(reused);
    end(session);
}

static TreeData *unfinished() {
    static TreeData data("static");
    return &data;
}

/* Records in a destructor that runs at the exit of the program. */
struct AtExit {
    ~AtExit() { const Block scope("in a destructor"); }
};

static void exits() {
    static AtExit before;
    begin("exits");
    static AtExit after;
    const Scope scope("scope");
    unfinished()->enterScope(scope);
    unfinished()->exitScope(scope);
}

static void stream() {
    class Readable : public TreeData {
    public:
        using TreeData::TreeData;
        std::string text() const {
            std::ostringstream stream;
            doDump(stream, OutputFormat::Hatchet);
            return stream.str();
        }
    };
    Readable data("streamed");
    const Scope scope("scope");
    data.enterScope(scope);
    data.exitScope(scope);
    CHECK(data.text().find("\"scope\"") != std::string::npos);
}

int main(int argc, char **argv) {
    static constexpr Case CASES[] = {{"contexts", contexts}, {"tree", tree},       {"sessions", sessions},
                                     {"trace", trace},       {"metrics", metrics}, {"errors", errors},
                                     {"late", late},         {"forked", forked},   {"threads", threads},
                                     {"hostile", hostile},   {"exits", exits},     {"stream", stream}};
    return runCase(CASES, argc, argv);
}
