/*
 * Contexts of Proton's C++ interface: the path on which a scope or an operator is recorded, the
 * sources of such paths, and the interfaces that are told of scopes and operators.
 */
#ifndef MAREY_PROTON_CONTEXT_HPP
#define MAREY_PROTON_CONTEXT_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../../marey.h"
#include "detail.hpp"

namespace proton {
inline namespace MAREY_PROTON_VERSION {

/** One element of a path. */
struct Context {
    /** The name, UTF-8. */
    std::string name;

    Context() = default;
    /** An element with this name. */
    Context(std::string text) : name(std::move(text)) {}
    /** An element with this name; a null pointer means an empty one. */
    Context(const char *text) : name(text == nullptr ? "" : text) {}

    /** Compares names byte by byte. @{ */
    friend bool operator==(const Context &a, const Context &b) { return a.name == b.name; }
    friend bool operator!=(const Context &a, const Context &b) { return a.name != b.name; }
    friend bool operator<(const Context &a, const Context &b) { return a.name < b.name; }
    friend bool operator>(const Context &a, const Context &b) { return a.name > b.name; }
    friend bool operator<=(const Context &a, const Context &b) { return a.name <= b.name; }
    friend bool operator>=(const Context &a, const Context &b) { return a.name >= b.name; }
    /** @} */
};

/** A scope with the number by which data is added to it. */
struct Scope : public Context {
    /** The number that no scope has. */
    static constexpr std::size_t DummyScopeId = std::numeric_limits<std::size_t>::max();
    /** The next number. Each library that includes this header counts on its own. */
    MAREY_PROTON_HIDDEN static inline std::atomic<std::size_t> scopeIdCounter{0};

    /** The number of this scope. */
    std::size_t scopeId = DummyScopeId;

    /** Returns a new number. */
    MAREY_PROTON_HIDDEN static std::size_t getNewScopeId() {
        return scopeIdCounter.fetch_add(1, std::memory_order_relaxed);
    }

    /** A scope with a known number, without a name. */
    explicit Scope(std::size_t id) : scopeId(id) {}
    /** A scope with a new number. */
    explicit Scope(std::string text) : Context(std::move(text)), scopeId(getNewScopeId()) {}
    /** A scope with a known number. */
    Scope(std::size_t id, std::string text) : Context(std::move(text)), scopeId(id) {}
};

/** Is told of each scope that is entered and exited through a SessionManager. */
class ScopeInterface {
public:
    virtual ~ScopeInterface() = default;
    /** Called on the thread that enters the scope, before it runs. */
    virtual void enterScope(const Scope &scope) = 0;
    /** Called when the scope is exited. */
    virtual void exitScope(const Scope &scope) = 0;
};

/** Is told of each operator, except of those inside another one on the same thread. */
class OpInterface {
public:
    virtual ~OpInterface() = default;

    /** Begins an operator, unless one is in progress on this thread. */
    void enterOp(const Scope &scope) {
        if (!isOpInProgress()) {
            setOpInProgress(true);
            startOp(scope);
        }
    }

    /** Ends the operator in progress on this thread. */
    void exitOp(const Scope &scope) {
        if (isOpInProgress()) {
            stopOp(scope);
            setOpInProgress(false);
        }
    }

protected:
    /** Called when an operator begins. */
    virtual void startOp(const Scope &scope) = 0;
    /** Called when the operator ends. */
    virtual void stopOp(const Scope &scope) = 0;
    /** Returns whether an operator is in progress on the calling thread. */
    virtual bool isOpInProgress() = 0;
    /** Sets whether an operator is in progress on the calling thread. */
    virtual void setOpInProgress(bool value) = 0;
};

/** An OpInterface that stores for each thread whether an operator is in progress. */
class ThreadLocalOpInterface : public OpInterface {
protected:
    /** Returns whether an operator is in progress on the calling thread. */
    bool isOpInProgress() override { return find(this) != nullptr; }

    /** Sets whether an operator is in progress on the calling thread. */
    void setOpInProgress(bool value) override {
        if (const OpInterface **slot = find(value ? nullptr : this)) {
            *slot = value ? this : nullptr;
        }
    }

private:
    /* Of interfaces beyond these, a thread starts no operators. Without a destructor, so that it does
     * not keep a library loaded. */
    static constexpr std::size_t MAX_INTERFACES = 16;
    MAREY_PROTON_HIDDEN static inline thread_local const OpInterface *inProgress[MAX_INTERFACES] = {};

    MAREY_PROTON_HIDDEN static const OpInterface **find(const OpInterface *interface) {
        for (const OpInterface *&slot : inProgress) {
            if (slot == interface) {
                return &slot;
            }
        }
        return nullptr;
    }
};

/**
 * A source of paths. A class of your own returns them from getContextsImpl(). A scope of its session
 * is recorded below these contexts, as the last of them.
 */
class ContextSource {
public:
    virtual ~ContextSource() = default;

    /** Returns the path of the calling thread, outermost first, with its state at the end. */
    std::vector<Context> getContexts() {
        std::vector<Context> contexts = getContextsImpl();
        const marey_table_t *table = marey_live_table_();
        const std::uint32_t state = table == nullptr ? 0 : table->state_name();
        if (state != 0) {
            contexts.emplace_back(detail::nameText(*table, state));
        }
        return contexts;
    }

    /** Replaces the state of the calling thread, which all sources share. */
    MAREY_PROTON_HIDDEN void setState(std::optional<Context> state) {
        detail::setState(state ? state->name.c_str() : nullptr);
    }

    /** Returns the number of contexts of the calling thread, without the state. */
    virtual std::size_t getDepth() = 0;

    /** Returns how the recorder finds these paths by itself; nothing for a source of your own. */
    virtual std::optional<marey_context> recorderContext() const { return std::nullopt; }

protected:
    /** Returns the path of the calling thread, outermost first, without its state. */
    virtual std::vector<Context> getContextsImpl() = 0;
};

/** A source of the recorder: see its subclasses. */
class RecorderContextSource : public ContextSource {
public:
    std::size_t getDepth() override {
        const marey_table_t *table = marey_live_table_();
        return table == nullptr ? 0 : table->context_names(*recorderContext(), nullptr, 0);
    }

protected:
    /** Returns the path that the recorder knows. */
    std::vector<Context> getContextsImpl() override {
        std::vector<Context> contexts;
        if (const marey_table_t *table = marey_live_table_()) {
            std::vector<std::uint32_t> names(table->context_names(*recorderContext(), nullptr, 0));
            table->context_names(*recorderContext(), names.data(), names.size());
            for (const std::uint32_t name : names) {
                contexts.emplace_back(detail::nameText(*table, name));
            }
        }
        return contexts;
    }
};

/**
 * The scopes that the thread has entered, in C, C++ and Python. A thread's first scope is below the
 * one that the main thread has open at that time.
 */
class ShadowContextSource : public RecorderContextSource, public ScopeInterface {
public:
    std::optional<marey_context> recorderContext() const override { return MAREY_SHADOW; }

    /** Enters the scope for all sessions. Not needed if a SessionManager enters it. */
    void enterScope(const Scope &scope) override { marey_enter(scope.name.c_str()); }
    /** Exits the scope for all sessions. */
    void exitScope(const Scope &scope) override { marey_scope_exit(marey_name(scope.name.c_str())); }
};

/** The Python frames that the thread executes. Empty without Python. */
class PythonContextSource : public RecorderContextSource {
public:
    std::optional<marey_context> recorderContext() const override { return MAREY_PYTHON; }
};

} // namespace MAREY_PROTON_VERSION
} // namespace proton

#endif // MAREY_PROTON_CONTEXT_HPP
