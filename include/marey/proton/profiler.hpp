/*
 * Profilers of Proton's C++ interface: sources of operators' metrics, such as a vendor's library.
 */
#ifndef MAREY_PROTON_PROFILER_HPP
#define MAREY_PROTON_PROFILER_HPP

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "context.hpp"
#include "data.hpp"
#include "detail.hpp"

namespace proton {
inline namespace MAREY_PROTON_VERSION {

/** A source of metrics. A class of your own adds them to getDataSet(), from any thread. */
class Profiler {
public:
    virtual ~Profiler() = default;

    /** Starts profiling, unless it is on. Sessions call this and the next ones one at a time. */
    Profiler *start() {
        if (!isStarted_) {
            doStart();
            isStarted_ = true;
        }
        return this;
    }

    /** Waits until the metrics of all operators so far are in the data. */
    Profiler *flush() {
        if (isStarted_) {
            doFlush();
        }
        return this;
    }

    /** Stops profiling, unless there is data that still needs it. */
    MAREY_PROTON_HIDDEN Profiler *stop() {
        if (isStarted_ && getDataSet().empty()) {
            isStarted_ = false;
            doStop();
        }
        return this;
    }

    /** Adds data that metrics go to. */
    MAREY_PROTON_HIDDEN Profiler *registerData(Data *data) {
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        dataSet_.insert(data);
        return this;
    }

    /** Removes data. flush() first: later metrics do not reach it. */
    MAREY_PROTON_HIDDEN Profiler *unregisterData(Data *data) {
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        dataSet_.erase(data);
        return this;
    }

    /** Returns the data of the sessions that are active. */
    MAREY_PROTON_HIDDEN std::set<Data *> getDataSet() const {
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        return dataSet_;
    }

protected:
    /** Starts profiling. */
    virtual void doStart() = 0;
    /** Waits until the metrics of all operators so far are in the data. */
    virtual void doFlush() = 0;
    /** Stops profiling. */
    virtual void doStop() = 0;

private:
    std::set<Data *> dataSet_;
    bool isStarted_ = false;
};

/**
 * A profiler of devices. A class of your own derives from `GPUProfiler<ItsName>`, and sets `pImpl` to a
 * subclass of GPUProfilerPimplInterface in its constructor.
 */
template <typename ConcreteProfilerT>
class GPUProfiler : public Profiler, public ThreadLocalOpInterface, public Singleton<ConcreteProfilerT> {
public:
    /** Asks for samples of the program counter; the back end reads isPCSamplingEnabled(). */
    ConcreteProfilerT &enablePCSampling() { return setPCSampling(true); }
    /** Asks for no samples of the program counter, as by default. */
    ConcreteProfilerT &disablePCSampling() { return setPCSampling(false); }
    /** Returns whether samples of the program counter are requested. */
    bool isPCSamplingEnabled() const { return pcSamplingEnabled_; }

    /** Sets the folder of the vendor's library, before start(). */
    ConcreteProfilerT &setLibPath(const std::string &libPath) {
        libPath_ = libPath;
        return static_cast<ConcreteProfilerT &>(*this);
    }
    /** Returns the folder of the vendor's library; empty if none was set. */
    const std::string &getLibPath() const { return libPath_; }

protected:
    /** The part that calls the vendor's library. */
    class GPUProfilerPimplInterface {
    public:
        /** The part of this profiler. */
        explicit GPUProfilerPimplInterface(ConcreteProfilerT &owner) : profiler(owner) {}
        virtual ~GPUProfilerPimplInterface() = default;
        /** Starts profiling. */
        virtual void doStart() = 0;
        /** Waits until the metrics of all operators so far are in the data. */
        virtual void doFlush() = 0;
        /** Stops profiling. */
        virtual void doStop() = 0;

    protected:
        /** The profiler that the part belongs to. */
        ConcreteProfilerT &profiler;
    };

    /** Which operators the activities of a device belong to. */
    struct Correlation {
        /** The largest number of a launch. */
        std::atomic<std::uint64_t> maxSubmittedCorrelationId{0};
        /** The largest number of a launch whose metrics are in the data. */
        std::atomic<std::uint64_t> maxCompletedCorrelationId{0};

        /** Notes a launch, as work of the operator that is in progress on this thread. */
        void submit(std::uint64_t correlationId) {
            {
                const std::lock_guard<std::mutex> lock(detail::dataMutex());
                corrIdToExternId_[correlationId] = currentOp();
            }
            raise(maxSubmittedCorrelationId, correlationId);
        }

        /** Returns the number of a launch's operator, or Scope::DummyScopeId. */
        std::size_t externId(std::uint64_t correlationId) const {
            const std::lock_guard<std::mutex> lock(detail::dataMutex());
            const auto found = corrIdToExternId_.find(correlationId);
            return found == corrIdToExternId_.end() ? Scope::DummyScopeId : found->second;
        }

        /** Notes that the metrics of a launch are in the data. Launches complete in order. */
        void complete(std::uint64_t correlationId) {
            {
                const std::lock_guard<std::mutex> lock(detail::dataMutex());
                corrIdToExternId_.erase(correlationId);
            }
            raise(maxCompletedCorrelationId, correlationId);
        }

        /** Calls `flush` until all launches are complete. Returns false after `maxRetries` calls. */
        template <typename FlushT>
        bool flush(std::uint64_t maxRetries, std::uint64_t sleepMicros, FlushT flush) {
            const std::uint64_t submitted = maxSubmittedCorrelationId.load();
            for (std::uint64_t retry = 0; maxCompletedCorrelationId.load() < submitted; ++retry) {
                if (retry == maxRetries) {
                    return false;
                }
                flush();
                std::this_thread::sleep_for(std::chrono::microseconds(sleepMicros));
            }
            return true;
        }

        /** The number of the operator in progress on this thread, or Scope::DummyScopeId. */
        MAREY_PROTON_HIDDEN static std::size_t &currentOp() {
            static thread_local std::size_t id = Scope::DummyScopeId;
            return id;
        }

    private:
        std::map<std::uint64_t, std::size_t> corrIdToExternId_;

        static void raise(std::atomic<std::uint64_t> &maximum, std::uint64_t value) {
            std::uint64_t current = maximum.load();
            while (current < value && !maximum.compare_exchange_weak(current, value)) {
            }
        }
    };

    /** The part that calls the vendor's library. Never null after the constructor. */
    std::unique_ptr<GPUProfilerPimplInterface> pImpl;
    /** The launches of this profiler. */
    Correlation correlation;

    /** Adds the operator to the data. */
    void startOp(const Scope &scope) override {
        Correlation::currentOp() = scope.scopeId;
        for (Data *data : this->getDataSet()) {
            data->addOp(scope.scopeId, scope.name);
        }
    }

    /** Ends the operator of the calling thread. */
    void stopOp(const Scope &) override { Correlation::currentOp() = Scope::DummyScopeId; }

    /** Calls `pImpl`. */
    void doStart() override { pImpl->doStart(); }
    /** Calls `pImpl`. */
    void doFlush() override { pImpl->doFlush(); }
    /** Calls `pImpl`. */
    void doStop() override { pImpl->doStop(); }

private:
    std::string libPath_;
    bool pcSamplingEnabled_ = false;

    ConcreteProfilerT &setPCSampling(bool isEnabled) {
        pcSamplingEnabled_ = isEnabled;
        return static_cast<ConcreteProfilerT &>(*this);
    }
};

/** marey's own recording of NVIDIA GPUs. Its kernels are in every session of the recorder. */
class CuptiProfiler : public GPUProfiler<CuptiProfiler> {
public:
    CuptiProfiler() { pImpl = std::make_unique<Cupti>(*this); }

protected:
    /** Does nothing: the recorder knows the operator in progress. */
    void startOp(const Scope &) override {}
    /** Does nothing. */
    void stopOp(const Scope &) override {}

private:
    class Cupti : public GPUProfilerPimplInterface {
    public:
        using GPUProfilerPimplInterface::GPUProfilerPimplInterface;

        /* Without a GPU, or with samples of the program counter, this is an error. */
        void doStart() override {
            if (profiler.isPCSamplingEnabled()) {
                detail::fail("marey takes no samples of the program counter: use \"cupti\"");
                return;
            }
            const marey_table_t *table = marey_load();
            if (table == nullptr) {
                return;
            }
            marey_gpu_options_t options{};
            options.size = sizeof options;
            options.is_required = 1;
            options.paths = profiler.getLibPath().data();
            options.paths_len = profiler.getLibPath().size();
            for (const Data *data : profiler.getDataSet()) {
                options.keeps_activities |= data->isTrace() ? 1u : 0u;
            }
            marey_error_t error;
            table->gpu_start(&options, &error);
            detail::check(error);
        }

        /* The recorder flushes and stops devices when sessions end. */
        void doFlush() override {}
        void doStop() override {}
    };
};

} // namespace MAREY_PROTON_VERSION
} // namespace proton

#endif // MAREY_PROTON_PROFILER_HPP
