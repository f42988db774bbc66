/*
 * The manager of Proton's C++ interface: sessions by number, and the scopes and operators of a program.
 */
#ifndef MAREY_PROTON_SESSION_MANAGER_HPP
#define MAREY_PROTON_SESSION_MANAGER_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "session.hpp"

namespace proton {
inline namespace MAREY_PROTON_VERSION {

/**
 * Creates sessions, and passes on scopes and operators to them. Each library that includes this
 * header has its own manager with its own plug-ins; the recorder, and so the tree of a session, is
 * one for the process.
 *
 * Every function may be called from any thread, also by plug-ins. Errors throw std::runtime_error, or
 * print a message where exceptions are disabled. Sessions that are alive when the program exits, or
 * the library is unloaded, are finalized.
 */
class MAREY_PROTON_HIDDEN SessionManager : public Singleton<SessionManager> {
public:
    /**
     * Creates a session, which collects nothing before activateSession(). Returns its number, which
     * is also that of the recorder's session; a live session with this path is returned as it is.
     *
     * `path` is the file without its suffix. `profilerName` is "cupti", a registered name, or "" for
     * scopes alone; `profilerPath` is the folder of the profiler's library, or "".
     * `contextSourceName` is "shadow", "python" or a registered name, `dataName` "tree", "trace" or a
     * registered name.
     */
    std::size_t addSession(const std::string &path, const std::string &profilerName,
                           const std::string &profilerPath, const std::string &contextSourceName,
                           const std::string &dataName) {
        const std::lock_guard<std::mutex> lifecycle(lifecycle_);
        if (const auto existing = findPath(path)) {
            return *existing;
        }
        const auto profiler = find(profilers_, "profiler", profilerName);
        const auto source = find(sources_, "context source", contextSourceName);
        const auto data = find(datas_, "data", dataName);
        if (!profiler || !source || !data) {
            return Scope::DummyScopeId;
        }
        Part<Profiler> profilerPart = (*profiler)(profilerPath);
        Part<ContextSource> sourcePart = (*source)();
        Part<Data> dataPart = (*data)(path, sourcePart.object);
        return add(std::move(profilerPart), std::move(sourcePart), std::move(dataPart));
    }

    /**
     * Creates a session from objects of your own classes. The profiler may be null and must outlive
     * the session. The source may be null too, if the data needs none.
     */
    template <typename ProfilerT, typename ContextSourceT, typename DataT>
    std::size_t addSession(ProfilerT *profiler, std::unique_ptr<ContextSourceT> source,
                           std::unique_ptr<DataT> data) {
        const std::lock_guard<std::mutex> lifecycle(lifecycle_);
        Part<Profiler> profilerPart;
        if (profiler != nullptr) {
            profilerPart = Part<Profiler>(profiler);
        }
        Part<ContextSource> sourcePart;
        if (source != nullptr) {
            sourcePart = Part<ContextSource>(std::move(source));
        }
        return add(std::move(profilerPart), std::move(sourcePart), Part<Data>(std::move(data)));
    }

    /** Gives a profiler a name. `T` has the static function `instance()`, as a Singleton has. */
    template <typename T> void registerProfiler(const std::string &name) {
        store(profilers_, name, [](const std::string &libPath) {
            if constexpr (std::is_base_of_v<GPUProfiler<T>, T>) {
                if (!libPath.empty()) {
                    T::instance().setLibPath(libPath);
                }
            }
            return Part<Profiler>(&T::instance());
        });
    }

    /** Gives a context source a name. `T` has a constructor without arguments. */
    template <typename T> void registerContextSource(const std::string &name) {
        store(sources_, name, [] { return Part<ContextSource>(std::make_unique<T>()); });
    }

    /** Gives data a name. `T` has a constructor from a path and a source. */
    template <typename T> void registerData(const std::string &name) {
        store(datas_, name, [](const std::string &path, ContextSource *source) {
            return Part<Data>(std::make_unique<T>(path, source));
        });
    }

    /** Starts data collection of a session. */
    void activateSession(std::size_t sessionId) {
        const std::lock_guard<std::mutex> lifecycle(lifecycle_);
        activate(get(sessionId));
    }

    /** Starts data collection of all sessions. */
    void activateAllSessions() { forAll(&SessionManager::activateSession); }

    /** Stops data collection of a session. */
    void deactivateSession(std::size_t sessionId) {
        const std::lock_guard<std::mutex> lifecycle(lifecycle_);
        deactivate(get(sessionId));
    }

    /** Stops data collection of all sessions. */
    void deactivateAllSessions() { forAll(&SessionManager::deactivateSession); }

    /** Ends a session and writes its file. */
    void finalizeSession(std::size_t sessionId, OutputFormat format) {
        const std::lock_guard<std::mutex> lifecycle(lifecycle_);
        finalize(get(sessionId), format);
    }

    /** Ends a session and writes its file in the format with this suffix. */
    void finalizeSession(std::size_t sessionId, const std::string &format) {
        finalizeSession(sessionId, parseOutputFormat(format));
    }

    /** Ends all sessions, each in its own format. */
    void finalizeAllSessions() { forAll(&SessionManager::finalizeInOwnFormat); }

    /** Returns the number of contexts of the calling thread. */
    std::size_t getContextDepth(std::size_t sessionId) {
        const std::shared_ptr<Session> session = get(sessionId);
        return session == nullptr ? 0 : session->getContextDepth();
    }

    /** Enters a scope on the calling thread, in all active sessions of the process. */
    void enterScope(const Scope &scope) {
        marey_enter(scope.name.c_str());
        const std::shared_ptr<const Interfaces> interfaces = current();
        for (ScopeInterface *interface : interfaces->scopes) {
            interface->enterScope(scope);
        }
    }

    /** Exits the scope on the calling thread, in all active sessions of the process. */
    void exitScope(const Scope &scope) {
        const std::shared_ptr<const Interfaces> interfaces = current();
        std::for_each(interfaces->scopes.rbegin(), interfaces->scopes.rend(),
                      [&](ScopeInterface *interface) { interface->exitScope(scope); });
        if (marey_live_table_() != nullptr) {
            marey_scope_exit(marey_name(scope.name.c_str()));
        }
    }

    /** Enters an operator, such as the launch of a kernel. Operators inside it are not recorded. */
    void enterOp(const Scope &scope) {
        if (detail::opDepth()++ == 0) {
            const std::shared_ptr<const Interfaces> interfaces = current();
            for (OpInterface *interface : interfaces->ops) {
                interface->enterOp(scope);
            }
        }
        if (const marey_table_t *table = marey_live_table_()) {
            table->operator_enter(detail::intern(*table, scope.name));
        }
    }

    /** Exits the operator. */
    void exitOp(const Scope &scope) {
        if (const marey_table_t *table = marey_live_table_()) {
            table->operator_exit(detail::intern(*table, scope.name));
        }
        if (detail::opDepth() != 0 && --detail::opDepth() == 0) {
            const std::shared_ptr<const Interfaces> interfaces = current();
            std::for_each(interfaces->ops.rbegin(), interfaces->ops.rend(),
                          [&](OpInterface *interface) { interface->exitOp(scope); });
        }
    }

    /** Adds values to a scope or operator, in all active sessions of this manager. */
    void addMetrics(std::size_t scopeId, const std::map<std::string, MetricValueType> &metrics) {
        const std::shared_ptr<const Interfaces> interfaces = current();
        for (const std::shared_ptr<Session> &session : interfaces->sessions) {
            session->addMetrics(scopeId, metrics);
        }
    }

    /** Replaces the state of the calling thread. */
    void setState(std::optional<Context> state) {
        detail::setState(state ? state->name.c_str() : nullptr);
    }

private:
    friend class Singleton<SessionManager>;

    using MakeProfiler = std::function<Part<Profiler>(const std::string &)>;
    using MakeSource = std::function<Part<ContextSource>()>;
    using MakeData = std::function<Part<Data>(const std::string &, ContextSource *)>;

    /* What the active sessions are told through. Replaced as a whole, so that no lock is held while a
     * plug-in is called, and no session ends in the meantime. */
    struct Interfaces {
        std::vector<std::shared_ptr<Session>> sessions;
        std::vector<ScopeInterface *> scopes;
        std::vector<OpInterface *> ops;
    };

    /* Finalizes the sessions at the exit of the program, before the recorder does. */
    struct ExitGuard {
        ~ExitGuard() {
            detail::printErrors([] { instance().finalizeAllSessions(); });
        }
    };

    SessionManager() {
        profilers_[""] = [](const std::string &) { return Part<Profiler>(); };
        registerProfiler<CuptiProfiler>("cupti");
        registerContextSource<ShadowContextSource>("shadow");
        registerContextSource<PythonContextSource>("python");
        registerData<TreeData>("tree");
        registerData<TraceData>("trace");
    }

    /* Held while sessions change, also while plug-ins start and stop. detail::dataMutex() guards the
     * members below. */
    std::mutex lifecycle_;
    std::map<std::size_t, std::shared_ptr<Session>> sessions_;
    std::shared_ptr<const Interfaces> interfaces_ = std::make_shared<Interfaces>();
    std::size_t nextForeignId_ = std::size_t{1} << 32;
    std::map<std::string, MakeProfiler> profilers_;
    std::map<std::string, MakeSource> sources_;
    std::map<std::string, MakeData> datas_;

    std::shared_ptr<const Interfaces> current() const {
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        return interfaces_;
    }

    template <typename Make, typename Function>
    void store(std::map<std::string, Make> &makers, const std::string &name, Function function) {
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        makers[name] = function;
    }

    template <typename Make>
    std::optional<Make> find(const std::map<std::string, Make> &makers, const char *what,
                             const std::string &name) const {
        std::string known;
        {
            const std::lock_guard<std::mutex> lock(detail::dataMutex());
            const auto found = makers.find(name);
            if (found != makers.end()) {
                return found->second;
            }
            for (const auto &maker : makers) {
                known += (known.empty() ? "\"" : ", \"") + maker.first + "\"";
            }
        }
        detail::fail(std::string("unknown ") + what + " \"" + name + "\": known are " + known);
        return std::nullopt;
    }

    std::shared_ptr<Session> get(std::size_t sessionId) const {
        {
            const std::lock_guard<std::mutex> lock(detail::dataMutex());
            const auto found = sessions_.find(sessionId);
            if (found != sessions_.end()) {
                return found->second;
            }
        }
        detail::fail("there is no session " + std::to_string(sessionId));
        return nullptr;
    }

    std::optional<std::size_t> findPath(const std::string &path) const {
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        for (const auto &[id, session] : sessions_) {
            if (session->getPath() == path) {
                return id;
            }
        }
        return std::nullopt;
    }

    std::size_t add(Part<Profiler> profiler, Part<ContextSource> source, Part<Data> data) {
        data.object->deactivate();
        const std::int64_t recorderSession = data.object->recorderSession();
        std::size_t id = static_cast<std::size_t>(recorderSession);
        {
            const std::lock_guard<std::mutex> lock(detail::dataMutex());
            if (recorderSession < 0) {
                id = nextForeignId_++;
            }
            sessions_[id] = std::make_shared<Session>(id, std::move(profiler), std::move(source),
                                                      std::move(data));
        }
        // After the recorder's own handler, which was registered for its first session: runs before it.
        static ExitGuard guard;
        return id;
    }

    bool isActive(const Session &session) const {
        const std::shared_ptr<const Interfaces> interfaces = current();
        return std::any_of(interfaces->sessions.begin(), interfaces->sessions.end(),
                           [&](const auto &active) { return active.get() == &session; });
    }

    void activate(const std::shared_ptr<Session> &session) {
        if (session != nullptr && !isActive(*session)) {
            session->activate();
            std::vector<std::shared_ptr<Session>> active = current()->sessions;
            active.push_back(session);
            publish(std::move(active));
        }
    }

    void deactivate(const std::shared_ptr<Session> &session) {
        if (session != nullptr && isActive(*session)) {
            std::vector<std::shared_ptr<Session>> active = current()->sessions;
            active.erase(std::remove(active.begin(), active.end(), session), active.end());
            publish(std::move(active));
            session->deactivate();
        }
    }

    void finalize(const std::shared_ptr<Session> &session, OutputFormat format) {
        if (session != nullptr && !session->data_.object->canWrite(format)) {
            detail::fail("the data of \"" + session->getPath() + "\" cannot be written as " +
                         outputFormatToString(format) + ": use data \"trace\"");
        } else if (session != nullptr) {
            deactivate(session);
            {
                const std::lock_guard<std::mutex> lock(detail::dataMutex());
                sessions_.erase(session->id);
            }
            session->finalize(format);
        }
    }

    void finalizeInOwnFormat(std::size_t sessionId) {
        const std::lock_guard<std::mutex> lifecycle(lifecycle_);
        const std::shared_ptr<Session> session = get(sessionId);
        finalize(session, session == nullptr ? OutputFormat::Hatchet : session->getFormat());
    }

    void forAll(void (SessionManager::*function)(std::size_t)) {
        std::vector<std::size_t> ids;
        {
            const std::lock_guard<std::mutex> lock(detail::dataMutex());
            for (const auto &session : sessions_) {
                ids.push_back(session.first);
            }
        }
        for (const std::size_t id : ids) {
            (this->*function)(id);
        }
    }

    /* Replaces the active sessions. A profiler of several sessions is told once; the recorder need
     * not be told. A source has a scope before the data asks for its contexts. */
    void publish(std::vector<std::shared_ptr<Session>> sessions) {
        auto interfaces = std::make_shared<Interfaces>();
        const auto append = [](auto &list, auto *interface) {
            if (interface != nullptr && std::find(list.begin(), list.end(), interface) == list.end()) {
                list.push_back(interface);
            }
        };
        for (const std::shared_ptr<Session> &session : sessions) {
            if (session->source_.object != nullptr && !session->source_.object->recorderContext()) {
                append(interfaces->scopes, session->source_.scopes);
            }
        }
        for (const std::shared_ptr<Session> &session : sessions) {
            append(interfaces->scopes, static_cast<ScopeInterface *>(session->data_.object));
        }
        for (const std::shared_ptr<Session> &session : sessions) {
            append(interfaces->scopes, session->profiler_.scopes);
            append(interfaces->ops, session->profiler_.ops);
        }
        interfaces->sessions = std::move(sessions);
        std::shared_ptr<const Interfaces> next = std::move(interfaces);
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        interfaces_.swap(next);  // the old ones are destroyed after the lock is released
    }
};

} // namespace MAREY_PROTON_VERSION
} // namespace proton

#endif // MAREY_PROTON_SESSION_MANAGER_HPP
