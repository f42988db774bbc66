/// @file
/// Callbacks at the start and the end of scopes. `addGlobalCallback` and its like are in
/// `switches.hpp`.
#ifndef MAREY_CALLBACKS_HPP
#define MAREY_CALLBACKS_HPP

#include "config.hpp"

#include <cstdint>
#include <memory>
#include <unordered_set>

namespace marey {

class RecordFunction;

/// An object that a start callback hands to the end callback of the same scope.
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
    using Start = std::unique_ptr<ObserverContext> (*)(const RecordFunction &);
    using End = void (*)(const RecordFunction &, ObserverContext *);

    explicit RecordFunctionCallback(Start start_function, End end_function = nullptr)
        : start_(start_function), end_(end_function) {}

    /// Whether scopes describe their inputs for `RecordFunction::inputs`.
    RecordFunctionCallback &needsInputs(bool needs_inputs) {
        needs_inputs_ = needs_inputs;
        return *this;
    }

    /// The share of scopes for which the functions are called, from 0 to 1.
    RecordFunctionCallback &samplingProb(double probability) {
        probability_ = probability < 0 ? 0 : probability > 1 ? 1 : probability;
        return *this;
    }

    /// The kinds of scopes; empty means all.
    RecordFunctionCallback &scopes(const std::unordered_set<RecordScope> &kinds) {
        scopes_ = kinds.empty() ? all_scopes : 0;
        for (RecordScope scope : kinds) {
            scopes_ |= 1U << static_cast<unsigned>(scope);
        }
        return *this;
    }

    Start start() const { return start_; }
    End end() const { return end_; }
    bool needsInputs() const { return needs_inputs_; }
    double samplingProb() const { return probability_; }
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

} // namespace marey

#endif // MAREY_CALLBACKS_HPP
