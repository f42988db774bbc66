/* A library of which a program loads several copies. */
#include <marey/proton.hpp>

using proton::SessionManager;

/* Records in a destructor that runs when the library is unloaded, or the program exits. */
static struct AtUnload {
    ~AtUnload() {
        MAREY_SCOPE("unloaded");
        SessionManager::instance().enterScope(proton::Scope("by the manager"));
        SessionManager::instance().exitScope(proton::Scope("by the manager"));
    }
} atUnload;

extern "C" __attribute__((visibility("default"))) void work(const char *name) {
    SessionManager &manager = SessionManager::instance();
    const proton::Scope scope(name);
    manager.enterScope(scope);
    manager.addMetrics(scope.scopeId, {{"items", int64_t{1}}});
    {
        MAREY_SCOPE("inside");
        manager.setState(proton::Context("warm"));
        manager.setState(std::nullopt);
        manager.enterOp(proton::Scope("op"));
        manager.exitOp(proton::Scope("op"));
    }
    manager.exitScope(scope);
}

extern "C" __attribute__((visibility("default"))) void begin(const char *path) {
    SessionManager &manager = SessionManager::instance();
    manager.activateSession(manager.addSession(path, "", "", "shadow", "tree"));
}
