/// @file
/// Callbacks at the start and the end of scopes. `addGlobalCallback` and its like are in
/// `switches.hpp`.
#ifndef MAREY_CALLBACKS_HPP
#define MAREY_CALLBACKS_HPP

#include "config.hpp"
#include "version.hpp"

#include <cstdint>
#include <memory>
#include <unordered_set>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

class RecordFunction;

/// The base of a value that a start function returns for the end function of the same scope.
class ObserverContext {
public:
    virtual ~ObserverContext() = default;

protected:
    ObserverContext() = default;
};

/// The number of a callback that was added; 0 without libmarey.so.
using CallbackHandle = std::uint64_t;

/// A pair of functions that are called around scopes, on the thread of the scope.
class RecordFunctionCallback {
public:
    /// Called at the start of a scope. The result, which may be null, is passed to the end function.
    using Start = std::unique_ptr<ObserverContext> (*)(const RecordFunction &);
    /// Called at the end of a scope.
    using End = void (*)(const RecordFunction &, ObserverContext *);

    /// Both functions may be null.
    explicit RecordFunctionCallback(Start start_function, End end_function = nullptr)
        : start_(start_function), end_(end_function) {}

    /// Sets whether scopes describe their inputs for `RecordFunction::inputs`. Off by default.
    RecordFunctionCallback &needsInputs(bool needs_inputs) {
        needs_inputs_ = needs_inputs;
        return *this;
    }

    /// Sets the probability with which the functions are called for a scope, from 0 to 1. 1 by
    /// default.
    RecordFunctionCallback &samplingProb(double probability) {
        probability_ = probability < 0 ? 0 : probability > 1 ? 1 : probability;
        return *this;
    }

    /// Sets the kinds of scopes; empty means all.
    RecordFunctionCallback &scopes(const std::unordered_set<RecordScope> &kinds) {
        scopes_ = kinds.empty() ? all_scopes : 0;
        for (RecordScope scope : kinds) {
            scopes_ |= 1U << static_cast<unsigned>(scope);
        }
        return *this;
    }

    /// The start function.
    Start start() const { return start_; }
    /// The end function.
    End end() const { return end_; }
    /// Whether scopes describe their inputs.
    bool needsInputs() const { return needs_inputs_; }
    /// The probability with which the functions are called for a scope.
    double samplingProb() const { return probability_; }
    /// Whether the functions are called for scopes of this kind.
    bool checkScope(RecordScope scope) const {
        return ((scopes_ >> static_cast<unsigned>(scope)) & 1U) != 0;
    }

private:
    static constexpr std::uint32_t all_scopes = 0xffffffff;

    Start start_;
    End end_;
    double probability_ = 1;
    std::uint32_t scopes_ = all_scopes;
    bool needs_inputs_ = false;
};

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_CALLBACKS_HPP
