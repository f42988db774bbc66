/*
 * Metrics of Proton's C++ interface: groups of values that are added to a node of a profile.
 */
#ifndef MAREY_PROTON_METRIC_HPP
#define MAREY_PROTON_METRIC_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "detail.hpp"

namespace proton {
inline namespace MAREY_PROTON_VERSION {

/** The group that a metric belongs to. A class of your own may use any of them. */
enum class MetricKind { Flexible, Kernel, PCSampling, Count };

/** A value. A profile stores integers as int64_t: larger ones as its maximum. */
using MetricValueType = std::variant<std::uint64_t, std::int64_t, double, std::string>;

/**
 * A metric with one or more values. A class of your own names them, sets them in its constructor
 * (`values[0] = 1.5`), and is passed to Data::addMetric.
 */
class Metric {
public:
    /** A metric with `size` values, at least one, which are 0 at first. */
    Metric(MetricKind kind, std::size_t size) : values(size > 0 ? size : 1), kind_(kind) {}
    virtual ~Metric() = default;

    /** Returns the name of the group of values. */
    virtual const std::string getName() const = 0;
    /** Returns the key of a value in the profile, with its unit: `energy (J)`. */
    virtual const std::string getValueName(int valueId) const = 0;
    /** Whether a value describes the node, so that the last one is kept instead of a sum. */
    virtual bool isProperty(int valueId) const = 0;
    /** Whether a value is left out of the sums of the nodes above. */
    virtual bool isExclusive(int valueId) const = 0;

    /** Returns the value as the profile stores it; nothing if only the program needs it. */
    virtual std::optional<MetricValueType> getStoredValue(int valueId) const {
        return values[index(valueId)];
    }

    /** Returns the group of the metric. */
    MetricKind getKind() const { return kind_; }
    /** Returns all values, in the order of their numbers. */
    const std::vector<MetricValueType> &getValues() const { return values; }
    /** Returns one value. */
    const MetricValueType &getValue(int valueId) const { return values[index(valueId)]; }

    /**
     * Replaces a value that is a property or a text, and adds to any other. A value of another type
     * than the current one is an error, unless the current one is the 0 of the constructor.
     */
    void updateValue(int valueId, const MetricValueType &value) {
        MetricValueType &current = values[index(valueId)];
        if (current == MetricValueType{std::uint64_t{0}}) {
            current = value;
            return;
        }
        if (current.index() != value.index()) {
            detail::fail("the value \"" + getValueName(valueId) + "\" of the metric \"" + getName() +
                         "\" has the type " + typeName(current) + ", not " + typeName(value));
            return;
        }
        if (isProperty(valueId) || std::holds_alternative<std::string>(value)) {
            current = value;
        } else if (auto *whole = std::get_if<std::uint64_t>(&current)) {
            if (__builtin_add_overflow(*whole, *std::get_if<std::uint64_t>(&value), whole)) {
                *whole = std::numeric_limits<std::uint64_t>::max();
            }
        } else if (auto *integer = std::get_if<std::int64_t>(&current)) {
            if (__builtin_add_overflow(*integer, *std::get_if<std::int64_t>(&value), integer)) {
                *integer = *std::get_if<std::int64_t>(&value) < 0
                               ? std::numeric_limits<std::int64_t>::min()
                               : std::numeric_limits<std::int64_t>::max();
            }
        } else if (auto *number = std::get_if<double>(&current)) {
            *number += *std::get_if<double>(&value);
        }
    }

    /** Updates each value with that of another metric of the same class. */
    void updateMetric(const Metric &other) {
        for (std::size_t id = 0; id < values.size() && id < other.values.size(); ++id) {
            updateValue(static_cast<int>(id), other.values[id]);
        }
    }

protected:
    /** The values, in the order of their numbers. */
    std::vector<MetricValueType> values;

private:
    MetricKind kind_;

    /* An unknown number means the last value, so that a mistake in a plug-in corrupts nothing. */
    std::size_t index(int valueId) const {
        const auto id = static_cast<std::size_t>(valueId);
        return id < values.size() ? id : values.size() - 1;
    }

    MAREY_PROTON_HIDDEN static const char *typeName(const MetricValueType &value) {
        static constexpr const char *NAMES[] = {"uint64_t", "int64_t", "double", "std::string"};
        return NAMES[value.index()];
    }
};

/** A metric of one value with a name of the program's choice. */
class FlexibleMetric : public Metric {
public:
    /** A value with its name, which contains the unit. See isProperty() and isExclusive(). */
    FlexibleMetric(std::string valueName, MetricValueType value, bool property = false,
                   bool exclusive = false)
        : Metric(MetricKind::Flexible, 1), valueName_(std::move(valueName)), property_(property),
          exclusive_(exclusive) {
        values[0] = std::move(value);
    }

    const std::string getName() const override { return "FlexibleMetric"; }
    const std::string getValueName(int) const override { return valueName_; }
    bool isProperty(int) const override { return property_; }
    bool isExclusive(int) const override { return exclusive_; }

private:
    std::string valueName_;
    bool property_;
    bool exclusive_;
};

/** The vendor of a device. */
enum class DeviceType { HIP, CUDA, COUNT };

/** Returns the device's type as profiles name it. */
inline const std::string getDeviceTypeString(DeviceType type) {
    switch (type) {
    case DeviceType::HIP:
        return "HIP";
    case DeviceType::CUDA:
        return "CUDA";
    default:
        return "";
    }
}

/** The executions of a kernel: their number, time in nanoseconds, and device. */
class KernelMetric : public Metric {
public:
    /** The numbers of the values. Times are in nanoseconds. */
    enum kernelMetricKind : int { StartTime, EndTime, Invocations, Duration, DeviceId, DeviceType, Count };

    KernelMetric() : Metric(MetricKind::Kernel, Count) {}

    /** Executions between two times in nanoseconds, on a device. */
    KernelMetric(std::uint64_t startTime, std::uint64_t endTime, std::uint64_t invocations,
                 std::uint64_t deviceId, std::uint64_t deviceType)
        : KernelMetric() {
        values[StartTime] = startTime;
        values[EndTime] = endTime;
        values[Invocations] = invocations;
        values[Duration] = endTime < startTime ? 0 : endTime - startTime;
        values[DeviceId] = deviceId;
        values[DeviceType] = deviceType;
    }

    const std::string getName() const override { return "KernelMetric"; }

    MAREY_PROTON_HIDDEN const std::string getValueName(int valueId) const override {
        static constexpr const char *NAMES[] = {"start_time (ns)", "end_time (ns)", "count",
                                                "time (ns)",       "device_id",     "device_type"};
        return valueId >= 0 && valueId < Count ? NAMES[valueId] : "";
    }

    bool isProperty(int valueId) const override { return valueId == DeviceId || valueId == DeviceType; }
    bool isExclusive(int valueId) const override { return valueId == StartTime || valueId == EndTime; }

    /** Profiles have no start and end, and the device as texts. */
    std::optional<MetricValueType> getStoredValue(int valueId) const override {
        if (valueId == StartTime || valueId == EndTime) {
            return std::nullopt;
        }
        const auto *number = std::get_if<std::uint64_t>(&getValue(valueId));
        if (number != nullptr && valueId == DeviceId) {
            return std::to_string(*number);
        }
        if (number != nullptr && valueId == DeviceType) {
            return getDeviceTypeString(static_cast<proton::DeviceType>(*number));
        }
        return getValue(valueId);
    }
};

/** Samples of the program counter: their number, and how many were stalled for each reason. */
class PCSamplingMetric : public Metric {
public:
    /** The numbers of the values, which are counts of samples. */
    enum PCSamplingMetricKind : int {
        NumSamples,
        NumStalledSamples,
        StalledBranchResolving,
        StalledNoInstruction,
        StalledShortScoreboard,
        StalledWait,
        StalledLongScoreboard,
        StalledTexThrottle,
        StalledBarrier,
        StalledMembar,
        StalledIMCMiss,
        StalledMIOThrottle,
        StalledMathPipeThrottle,
        StalledDrain,
        StalledLGThrottle,
        StalledNotSelected,
        StalledMisc,
        StalledDispatchStall,
        StalledSleeping,
        StalledSelected,
        Count
    };

    PCSamplingMetric() : Metric(MetricKind::PCSampling, Count) {}

    /** Samples with one stall reason. */
    PCSamplingMetric(PCSamplingMetricKind reason, std::uint64_t samples, std::uint64_t stalledSamples)
        : PCSamplingMetric() {
        values[static_cast<std::size_t>(reason)] = stalledSamples;
        values[NumSamples] = samples;
        values[NumStalledSamples] = stalledSamples;
    }

    const std::string getName() const override { return "PCSamplingMetric"; }

    MAREY_PROTON_HIDDEN const std::string getValueName(int valueId) const override {
        static constexpr const char *NAMES[] = {
            "num_samples",           "num_stalled_samples",     "stalled_branch_resolving",
            "stalled_no_instruction", "stalled_short_scoreboard", "stalled_wait",
            "stalled_long_scoreboard", "stalled_tex_throttle",    "stalled_barrier",
            "stalled_membar",        "stalled_imc_miss",        "stalled_mio_throttle",
            "stalled_math_pipe_throttle", "stalled_drain",      "stalled_lg_throttle",
            "stalled_not_selected",  "stalled_misc",            "stalled_dispatch_stall",
            "stalled_sleeping",      "stalled_selected"};
        return valueId >= 0 && valueId < Count ? NAMES[valueId] : "";
    }

    bool isProperty(int) const override { return false; }
    bool isExclusive(int) const override { return false; }
};

} // namespace MAREY_PROTON_VERSION
} // namespace proton

#endif // MAREY_PROTON_METRIC_HPP
