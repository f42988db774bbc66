/* What the test programs share: a table of cases, of which the first argument names one. */
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <marey/proton.hpp>

/* Ends the program if a condition is false. */
#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition);         \
            std::exit(1);                                                        \
        }                                                                        \
    } while (false)

using proton::SessionManager;

inline SessionManager &manager() { return SessionManager::instance(); }

/* An active session without a profiler. */
inline std::size_t begin(const char *path, const char *source = "shadow", const char *data = "tree",
                         const char *profiler = "") {
    const std::size_t session = manager().addSession(path, profiler, "", source, data);
    manager().activateSession(session);
    return session;
}

inline void end(std::size_t session) {
    manager().finalizeSession(session, proton::OutputFormat::Hatchet);
}

/* A scope of the manager that lasts for a block. */
class Block {
public:
    explicit Block(const char *name) : scope(name) { manager().enterScope(scope); }
    ~Block() { manager().exitScope(scope); }
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;

    const proton::Scope scope;
    std::size_t id() const { return scope.scopeId; }
};

struct Case {
    const char *name;
    void (*run)();
};

template <std::size_t N> int runCase(const Case (&cases)[N], int argc, char **argv) {
    for (const Case &known : cases) {
        if (argc == 2 && std::strcmp(argv[1], known.name) == 0) {
            known.run();
            return 0;
        }
    }
    std::fprintf(stderr, "no such case\n");
    return 2;
}
