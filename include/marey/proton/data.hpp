/*
 * Data of Proton's C++ interface: the place where a session records. recorder_data.hpp has the data
 * that marey's recorder keeps.
 */
#ifndef MAREY_PROTON_DATA_HPP
#define MAREY_PROTON_DATA_HPP

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <ostream>
#include <string>

#include "context.hpp"
#include "detail.hpp"
#include "metric.hpp"

namespace proton {
inline namespace MAREY_PROTON_VERSION {

/** The format of a file. The first two are of trees, the others of traces. */
enum class OutputFormat { Hatchet, HatchetMsgPack, ChromeTrace, Run };

/** Returns the suffix of a format's files. */
MAREY_PROTON_HIDDEN inline const std::string outputFormatToString(OutputFormat format) {
    static constexpr const char *NAMES[] = {"hatchet", "hatchet_msgpack", "chrome_trace", "marey"};
    return NAMES[static_cast<int>(format)];
}

/** Returns the format whose files have this suffix. An unknown suffix is an error. */
inline OutputFormat parseOutputFormat(const std::string &suffix) {
    for (const OutputFormat format : {OutputFormat::Hatchet, OutputFormat::HatchetMsgPack,
                                      OutputFormat::ChromeTrace, OutputFormat::Run}) {
        if (outputFormatToString(format) == suffix) {
            return format;
        }
    }
    detail::fail("unknown format \"" + suffix + "\": it is hatchet, hatchet_msgpack, chrome_trace or marey");
    return OutputFormat::Hatchet;
}

/** The place where scopes, operators and metrics are recorded. */
class Data : public ScopeInterface {
public:
    /** Data for a file, to whose name the suffix of a format is appended. Paths are those of the
     * source, which must outlive the data; without one, a scope's name is its path. */
    explicit Data(const std::string &file, ContextSource *source = nullptr)
        : path(file), contextSource(source) {}

    /**
     * Adds an operator below a scope or operator, or, with a number that no scope of this data has,
     * below the calling thread's contexts. Returns the number by which metrics are added to it.
     */
    virtual std::size_t addOp(std::size_t scopeId, const std::string &opName = {}) = 0;
    /** Adds a metric to a scope or operator, from any thread. An unknown number is ignored. */
    virtual void addMetric(std::size_t scopeId, std::shared_ptr<Metric> metric) = 0;
    /** Adds values by their names, in which (exc) and (pty) select the aggregation. */
    virtual void addMetrics(std::size_t scopeId, const std::map<std::string, MetricValueType> &metrics) = 0;

    /** Starts recording. A session calls this. */
    virtual void activate() {}
    /** Stops recording until the next activate(). A session calls this. */
    virtual void deactivate() {}

    /** Writes the file; with the path "" or "-", to the standard output. */
    virtual void dump(OutputFormat format) {
        if (path.empty() || path == "-") {
            doDump(std::cout, format);
            return;
        }
        const std::string file = path + "." + outputFormatToString(format);
        std::ofstream stream(file, std::ios::binary);
        doDump(stream, format);
        stream.close();
        if (!stream) {
            detail::fail("cannot write " + file);
        }
    }

    /** Returns the number of the recorder's session, -1 for data of another kind. */
    virtual std::int64_t recorderSession() const { return -1; }
    /** Whether the data has single events, and not only their sums. */
    virtual bool isTrace() const { return false; }

    /** Whether there is a file in this format. */
    virtual bool canWrite(OutputFormat) const { return true; }

    /** Returns the path of the file without its suffix. */
    const std::string &getPath() const { return path; }

protected:
    /** Writes the data in a format. */
    virtual void doDump(std::ostream &os, OutputFormat format) const = 0;

    /** The path of the file without its suffix. */
    std::string path;
    /** The source of paths; null if there is none. */
    ContextSource *contextSource;
};

} // namespace MAREY_PROTON_VERSION
} // namespace proton

#endif // MAREY_PROTON_DATA_HPP
