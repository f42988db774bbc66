/*
 * Sessions of Proton's C++ interface: a profiler, a source of contexts and data that belong together.
 */
#ifndef MAREY_PROTON_SESSION_HPP
#define MAREY_PROTON_SESSION_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "context.hpp"
#include "data.hpp"
#include "profiler.hpp"
#include "recorder_data.hpp"

namespace proton {
inline namespace MAREY_PROTON_VERSION {

/** An object of a session, with the interfaces that its class has; found without RTTI. */
template <typename T> struct Part {
    /** The object; null if there is none. */
    T *object = nullptr;
    /** The object as an interface that is told of scopes; null if it is none. */
    ScopeInterface *scopes = nullptr;
    /** The object as an interface that is told of operators; null if it is none. */
    OpInterface *ops = nullptr;
    /** The owner of the object; null if the program owns it. */
    std::shared_ptr<T> owner;

    Part() = default;

    /** A part that lives longer than all sessions. */
    template <typename Concrete> explicit Part(Concrete *concrete) : object(concrete) {
        if constexpr (std::is_base_of_v<ScopeInterface, Concrete>) {
            scopes = concrete;
        }
        if constexpr (std::is_base_of_v<OpInterface, Concrete>) {
            ops = concrete;
        }
    }

    /** A part that the session owns. */
    template <typename Concrete>
    explicit Part(std::unique_ptr<Concrete> concrete) : Part(concrete.get()) {
        owner = std::move(concrete);
    }
};

/** A profiling session: see SessionManager. */
class MAREY_PROTON_HIDDEN Session {
public:
    /** The profiler and the source may be empty. */
    Session(std::size_t sessionId, Part<Profiler> profiler, Part<ContextSource> source, Part<Data> data)
        : id(sessionId), source_(std::move(source)), data_(std::move(data)), profiler_(std::move(profiler)) {}

    /** The number of the session. */
    const std::size_t id;

    /** Starts data collection. */
    void activate() {
        data_.object->activate();
        if (profiler_.object != nullptr) {
            profiler_.object->registerData(data_.object)->start();
        }
    }

    /** Stops data collection, after the profiler's metrics have arrived. */
    void deactivate() {
        if (profiler_.object != nullptr) {
            profiler_.object->flush()->unregisterData(data_.object);
        }
        data_.object->deactivate();
    }

    /** Stops the profiler, unless another session needs it, and writes the file. */
    void finalize(OutputFormat format) {
        if (profiler_.object != nullptr) {
            profiler_.object->stop();
        }
        data_.object->dump(format);
    }

    /** Returns the number of contexts of the calling thread. */
    std::size_t getContextDepth() {
        return source_.object == nullptr ? 0 : source_.object->getDepth();
    }

    /** Adds values to a scope or operator of this session's data. */
    void addMetrics(std::size_t scopeId, const std::map<std::string, MetricValueType> &metrics) {
        data_.object->addMetrics(scopeId, metrics);
    }

    /** Returns the path of the file without its suffix. */
    const std::string &getPath() const { return data_.object->getPath(); }

    /** Returns the format of a file for which none is named. */
    OutputFormat getFormat() const {
        return data_.object->isTrace() ? OutputFormat::ChromeTrace : OutputFormat::Hatchet;
    }

private:
    friend class SessionManager;

    // The data uses the source, and the profiler the data, until their end.
    Part<ContextSource> source_;
    Part<Data> data_;
    Part<Profiler> profiler_;
};

} // namespace MAREY_PROTON_VERSION
} // namespace proton

#endif // MAREY_PROTON_SESSION_HPP
