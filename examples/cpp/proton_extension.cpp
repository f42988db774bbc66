// Plug-ins for marey/proton.hpp: a metric, a source of contexts and a profiler of a device, each written
// in the steps of Proton's extension guide. Writes extension.hatchet: `marey view extension.hatchet`.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <marey/proton.hpp>

namespace proton {

// A metric: derive from Metric, name the values, and say how each is aggregated.
class EnergyMetric : public Metric {
public:
    enum EnergyMetricKind : int { Energy, Peak, Rail, Count };

    EnergyMetric(double joules, double watts, const std::string &rail) : Metric(MetricKind::Flexible, Count) {
        values[Energy] = joules;
        values[Peak] = watts;
        values[Rail] = rail;
    }

    const std::string getName() const override { return "EnergyMetric"; }
    const std::string getValueName(int valueId) const override {
        static const char *const names[] = {"energy (J)", "peak power (W)", "rail"};
        return names[valueId];
    }
    bool isProperty(int valueId) const override { return valueId == Rail; }     // the last one is kept
    bool isExclusive(int valueId) const override { return valueId == Peak; }    // not summed into outer scopes
};

// A source of contexts: return the path of the calling thread.
class RequestContextSource : public ContextSource {
public:
    static void setRequest(int number) { request = number; }
    size_t getDepth() override { return 2; }

protected:
    std::vector<Context> getContextsImpl() override {
        return {Context("server"), Context("request " + std::to_string(request))};
    }

private:
    static inline thread_local int request = 0;
};

// A profiler: derive from GPUProfiler, and put the calls of the vendor's library into pImpl. This one
// has a thread instead of a device, which executes a queue of operators.
class QueueProfiler : public GPUProfiler<QueueProfiler> {
public:
    QueueProfiler() { pImpl = std::make_unique<Queue>(*this); }

    // The program's launch of work that takes some nanoseconds.
    void launch(uint64_t nanos) { static_cast<Queue &>(*pImpl).launch(nanos); }

private:
    class Queue : public GPUProfilerPimplInterface {
    public:
        using GPUProfilerPimplInterface::GPUProfilerPimplInterface;

        void launch(uint64_t nanos) {
            const std::lock_guard<std::mutex> lock(mutex);
            profiler.correlation.submit(++lastLaunch);
            launches.push_back({lastLaunch, nanos});
            changed.notify_all();
        }

        void doStart() override {
            stops = false;
            device = std::thread([this] { run(); });
        }

        void doFlush() override {
            profiler.correlation.flush(10000, 100, [this] { changed.notify_all(); });
        }

        void doStop() override {
            {
                const std::lock_guard<std::mutex> lock(mutex);
                stops = true;
                changed.notify_all();
            }
            device.join();
        }

    private:
        struct Launch {
            uint64_t correlationId, nanos;
        };

        std::mutex mutex;
        std::condition_variable changed;
        std::deque<Launch> launches;
        uint64_t lastLaunch = 0, clock = 0;
        bool stops = false;
        std::thread device;

        // Adds the metrics of each launch to the operator that was in progress.
        void run() {
            std::unique_lock<std::mutex> lock(mutex);
            while (true) {
                changed.wait(lock, [this] { return stops || !launches.empty(); });
                if (launches.empty()) {
                    return;
                }
                const Launch launch = launches.front();
                launches.pop_front();
                lock.unlock();
                const uint64_t start = clock;
                clock += launch.nanos;
                const auto metric = std::make_shared<KernelMetric>(
                    start, clock, 1, 0, static_cast<uint64_t>(DeviceType::CUDA));
                const auto energy = std::make_shared<EnergyMetric>(0.5, 40.0, "device");
                const size_t op = profiler.correlation.externId(launch.correlationId);
                for (Data *data : profiler.getDataSet()) {
                    data->addMetric(op, metric);
                    data->addMetric(op, energy);
                }
                profiler.correlation.complete(launch.correlationId);
                lock.lock();
            }
        }
    };
};

} // namespace proton

int main() {
    auto &manager = proton::SessionManager::instance();
    manager.registerProfiler<proton::QueueProfiler>("queue");
    manager.registerContextSource<proton::RequestContextSource>("requests");

    const size_t byScope = manager.addSession("extension", "queue", "", "shadow", "tree");
    const size_t byRequest = manager.addSession("requests", "queue", "", "requests", "tree");
    manager.activateAllSessions();
    for (int request = 1; request <= 2; ++request) {
        proton::RequestContextSource::setRequest(request);
        const proton::Scope scope("solve");
        manager.enterScope(scope);
        for (int step = 0; step < 3; ++step) {
            const proton::Scope op("matmul");
            manager.enterOp(op);
            proton::QueueProfiler::instance().launch(1000);
            manager.exitOp(op);
        }
        manager.addMetrics(scope.scopeId, {{"items", int64_t{8}}});
        manager.exitScope(scope);
    }
    manager.finalizeSession(byRequest, proton::OutputFormat::Hatchet);
    manager.finalizeSession(byScope, proton::OutputFormat::Hatchet);
}
