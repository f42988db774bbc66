// Two sessions over one program: a tree of the whole run, and a trace of its second half. Requests are a
// source of contexts, so that the third session sums up by tenant. Writes advanced.hatchet,
// tenants.hatchet and half.chrome_trace.

#include <memory>
#include <string>

#include <marey/proton.hpp>

// The path of the request that the calling thread handles.
class TenantSource : public proton::ContextSource {
public:
    static inline thread_local const char *tenant = "none";
    size_t getDepth() override { return 1; }

protected:
    std::vector<proton::Context> getContextsImpl() override { return {proton::Context(tenant)}; }
};

static void handle(int request) {
    auto &manager = proton::SessionManager::instance();
    TenantSource::tenant = request % 3 == 0 ? "batch" : "interactive";
    const proton::Scope scope("handle");
    manager.enterScope(scope);
    {
        MAREY_SCOPE("decode"); // hot paths use marey.h: the tree and the trace have these scopes too
        marey_metric_i64("tokens", 16 * (request + 1));
    }
    manager.addMetrics(scope.scopeId, {{"requests", int64_t{1}}, {"last request (pty)", int64_t{request}}});
    manager.exitScope(scope);
}

int main() {
    auto &manager = proton::SessionManager::instance();
    manager.registerContextSource<TenantSource>("tenants");
    const size_t tree = manager.addSession("advanced", "", "", "shadow", "tree");
    const size_t tenants = manager.addSession("tenants", "", "", "tenants", "tree");
    const size_t half = manager.addSession("half", "", "", "shadow", "trace");
    manager.activateSession(tree);
    manager.activateSession(tenants);
    for (int request = 0; request < 6; ++request) {
        if (request == 3) {
            manager.activateSession(half);
        }
        handle(request);
    }
    manager.finalizeSession(half, proton::OutputFormat::ChromeTrace);
    manager.finalizeSession(tenants, proton::OutputFormat::Hatchet);
    manager.finalizeSession(tree, proton::OutputFormat::Hatchet);
}
