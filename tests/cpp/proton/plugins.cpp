/* Plug-ins of marey/proton.hpp beside those of examples/cpp/proton_extension.cpp. */
#include "case.hpp"

#include <string>
#include <thread>
#include <vector>

using namespace proton;

/* Told of scopes and operators, and of the start and the end. */
class Listener : public GPUProfiler<Listener>, public ScopeInterface {
public:
    std::vector<std::string> heard;

    Listener() { pImpl = std::make_unique<Calls>(*this); }
    void enterScope(const Scope &scope) override { heard.push_back("+" + scope.name); }
    void exitScope(const Scope &scope) override { heard.push_back("-" + scope.name); }

protected:
    void startOp(const Scope &scope) override {
        heard.push_back("start " + scope.name);
        // The manager may be called by a plug-in.
        manager().getContextDepth(0);
        GPUProfiler::startOp(scope);
    }
    void stopOp(const Scope &scope) override {
        heard.push_back("stop " + scope.name);
        for (Data *data : getDataSet()) {
            data->addMetrics(scope.scopeId, {{"stopped", int64_t{1}}});
        }
        GPUProfiler::stopOp(scope);
    }

private:
    struct Calls : GPUProfilerPimplInterface {
        using GPUProfilerPimplInterface::GPUProfilerPimplInterface;
        void doStart() override { profiler.heard.push_back("start in " + profiler.getLibPath()); }
        void doFlush() override { profiler.heard.push_back("flush"); }
        void doStop() override { profiler.heard.push_back("stop"); }
    };
};

static void listener() {
    manager().registerProfiler<Listener>("listener");
    const size_t first = manager().addSession("first", "listener", "/opt/vendor", "shadow", "tree");
    const size_t second = begin("second", "shadow", "tree", "listener");
    manager().activateSession(first);
    {
        const Block scope("scope");
        const Scope op("op"), nested("nested");
        manager().enterOp(op);
        manager().enterOp(nested);
        manager().exitOp(nested);
        manager().exitOp(op);
    }
    manager().deactivateSession(first);
    end(second);
    manager().activateSession(first);
    end(first);
    for (const std::string &line : Listener::instance().heard) {
        std::puts(line.c_str());
    }
}

/* A shadow stack of the program's own, which is told of the scopes before the data asks for it. */
class OwnStack : public ContextSource, public ScopeInterface {
public:
    void enterScope(const Scope &scope) override { stack.push_back(scope); }
    void exitScope(const Scope &) override { stack.pop_back(); }
    size_t getDepth() override { return stack.size(); }

protected:
    std::vector<Context> getContextsImpl() override { return stack; }

private:
    std::vector<Context> stack{Context("program")};
};

static void source() {
    manager().registerContextSource<OwnStack>("own");
    const size_t own = begin("own", "own"), events = begin("own-trace", "own", "trace"), other = begin("other");
    MAREY_SCOPE("of marey.h");
    {
        const Block outer("outer");
        CHECK(manager().getContextDepth(own) == 2);
        const Block inner("inner");
        manager().addMetrics(inner.id(), {{"items", int64_t{2}}});
        manager().setState(Context("warm"));
        manager().enterOp(Scope("op"));
        manager().exitOp(Scope("op"));
        manager().setState(std::nullopt);
    }
    manager().deactivateSession(own);
    { const Block unseen("unseen"); }
    manager().activateSession(own);
    end(own);
    manager().finalizeSession(events, OutputFormat::ChromeTrace);
    end(other);
}

/* Data of the program's own: a line for each scope. */
class Lines : public Data {
public:
    using Data::Data;
    void enterScope(const Scope &scope) override { text += std::to_string(contextSource->getDepth()) + " " + scope.name + "\n"; }
    void exitScope(const Scope &) override {}
    size_t addOp(size_t scopeId, const std::string &) override { return scopeId; }
    void addMetric(size_t, std::shared_ptr<Metric> metric) override { text += metric->getValueName(0) + "\n"; }
    void addMetrics(size_t, const std::map<std::string, MetricValueType> &metrics) override {
        text += metrics.begin()->first + "\n";
    }

protected:
    void doDump(std::ostream &os, OutputFormat) const override { os << text; }

private:
    std::string text;
};

static void data() {
    manager().registerData<Lines>("lines");
    const size_t lines = begin("lines", "shadow", "lines"), printed = begin("", "shadow", "lines");
    const size_t tree = begin("tree");
    {
        const Block outer("outer");
        const Block inner("inner");
        manager().addMetrics(inner.id(), {{"items", int64_t{1}}});
    }
    end(lines);
    end(printed);
    end(tree);
}

/* Metrics that are still under way when the program exits. */
class Slow : public GPUProfiler<Slow> {
public:
    Slow() { pImpl = std::make_unique<Calls>(*this); }
    size_t scope = 0;

private:
    struct Calls : GPUProfilerPimplInterface {
        using GPUProfilerPimplInterface::GPUProfilerPimplInterface;
        void doStart() override {}
        void doFlush() override {
            for (Data *data : profiler.getDataSet()) {
                data->addMetrics(profiler.scope, {{"flushed", int64_t{1}}});
            }
        }
        void doStop() override {}
    };
};

static void unfinished() {
    manager().registerProfiler<Slow>("slow");
    begin("unfinished", "shadow", "tree", "slow");
    const Block scope("scope");
    Slow::instance().scope = scope.id();
}

/* Kernels of marey's own recording, on the double of NVIDIA's libraries. */
static void cupti() {
    const size_t session = begin("cupti", "shadow", "tree", "cupti");
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    const void *(*name)(const char *) = nullptr;
    void (*launch)(const void *, uint32_t, uint64_t, uint64_t) = nullptr;
    void *found = dlsym(cuda, "replay_name");
    std::memcpy(&name, &found, sizeof found);
    found = dlsym(cuda, "replay_launch_many");
    std::memcpy(&launch, &found, sizeof found);
    CHECK(name != nullptr && launch != nullptr);
    {
        const Block scope("step");
        launch(name("kernel"), 7, 10, 5);
    }
    end(session);
}

int main(int argc, char **argv) {
    static constexpr Case CASES[] = {{"listener", listener}, {"source", source},         {"data", data},
                                     {"cupti", cupti},       {"unfinished", unfinished}};
    return runCase(CASES, argc, argv);
}
