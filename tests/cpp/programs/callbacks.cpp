// Callbacks around scopes, and the guards that switch scopes off. Prints a line per fact.
#include <marey.hpp>

#include <atomic>
#include <cstdio>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace {

using marey::RecordFunction;
using marey::RecordFunctionCallback;
using marey::RecordScope;

std::string seen;
std::atomic<int> starts{0};
std::atomic<int> ends{0};

struct Context : marey::ObserverContext {
    explicit Context(std::string text) : name(std::move(text)) {}
    std::string name;
};

std::unique_ptr<marey::ObserverContext> describe(const RecordFunction &scope) {
    RECORD_USER_SCOPE("of a callback"); // calls no callback
    seen += "<" + scope.name() + ":" + std::to_string(static_cast<int>(scope.scope())) + ":" +
            std::to_string(scope.seqNr()) + ":" + std::to_string(scope.inputs().size());
    return std::make_unique<Context>(scope.name());
}

void finish(const RecordFunction &scope, marey::ObserverContext *context) {
    const bool is_own = static_cast<Context *>(context)->name == scope.name();
    seen += is_own ? ">" : "!";
}

std::unique_ptr<marey::ObserverContext> count_start(const RecordFunction &) {
    starts++;
    return nullptr;
}

void count_end(const RecordFunction &, marey::ObserverContext *) { ends++; }

std::string seen_so_far() { return std::exchange(seen, std::string()); }

int evaluated = 0;
int evaluate() { return ++evaluated; }

void scopes() {
    RECORD_FUNCTION("outer", marey::inputs(evaluate(), 2), 7);
    RECORD_USER_SCOPE("inner");
}

int work(int count) {
    starts = 0;
    for (int i = 0; i < count; i++) {
        RECORD_FUNCTION("work", {});
    }
    return starts;
}

// Sets the id of the next thread of the process, which needs a privilege.
bool set_next_id(long id) {
    std::FILE *last = std::fopen("/proc/sys/kernel/ns_last_pid", "w");
    if (last == nullptr) {
        return false;
    }
    const bool is_written = std::fprintf(last, "%ld", id - 1) > 0;
    return std::fclose(last) == 0 && is_written;
}

// A thread ends with a callback of its own. A later one has the same id.
void reuse_id() {
    long id = 0;
    std::thread([&id] {
        id = syscall(SYS_gettid);
        marey::addThreadLocalCallback(RecordFunctionCallback(describe, finish));
        scopes();
    }).join();
    std::printf("own %s\n", seen_so_far().c_str());
    for (bool is_reused = false; !is_reused;) { // other processes may be faster
        if (!set_next_id(id)) {
            std::puts("no privilege");
            return;
        }
        std::thread([&is_reused, id] {
            is_reused = syscall(SYS_gettid) == id;
            scopes();
        }).join();
    }
    std::printf("inherited '%s'\n", seen_so_far().c_str());
}

} // namespace

int main(int argc, char **) {
    if (argc > 1) {
        reuse_id();
        return 0;
    }
    scopes();
    std::printf("nobody %d\n", evaluated);

    auto handle = marey::addGlobalCallback(RecordFunctionCallback(describe, finish));
    scopes();
    std::printf("all %s %d\n", seen_so_far().c_str(), evaluated);
    marey::removeCallback(handle);
    scopes();
    std::printf("removed '%s' %d\n", seen_so_far().c_str(), marey::hasCallbacks());

    handle = marey::addGlobalCallback(
        RecordFunctionCallback(describe, finish).needsInputs(true).scopes({RecordScope::FUNCTION}));
    scopes();
    std::printf("inputs %s %d\n", seen_so_far().c_str(), evaluated);
    marey::disableCallback(handle);
    scopes();
    std::printf("disabled '%s'\n", seen_so_far().c_str());
    marey::reenableCallback(handle);
    scopes();
    std::printf("reenabled %s\n", seen_so_far().c_str());
    {
        const marey::DisableRecordFunctionGuard guard;
        scopes();
        std::printf("guarded '%s' %d\n", seen_so_far().c_str(), marey::isRecordFunctionEnabled());
        const marey::RecordFunctionGuard again;
        scopes();
        std::printf("inner guard %s\n", seen_so_far().c_str());
    }
    marey::enableRecordFunction(false);
    scopes();
    std::printf("off '%s'\n", seen_so_far().c_str());
    marey::enableRecordFunction(true);
    marey::removeCallback(handle);

    handle = marey::addThreadLocalCallback(RecordFunctionCallback(describe, finish));
    std::thread(scopes).join();
    std::printf("other thread '%s'\n", seen_so_far().c_str());
    scopes();
    std::printf("own thread %s\n", seen_so_far().c_str());
    marey::removeCallback(handle);

    RecordFunctionCallback counting(count_start, count_end);
    handle = marey::addGlobalCallback(counting.samplingProb(0.1));
    const int sampled = work(100000);
    std::printf("sampled %d %d\n", sampled > 9000 && sampled < 11000, starts == ends);
    marey::removeCallback(handle);
    handle = marey::addGlobalCallback(counting.samplingProb(0));
    std::printf("never %d\n", work(1000));
    marey::removeCallback(handle);
    handle = marey::addGlobalCallback(counting.samplingProb(1));
    std::printf("always %d\n", work(1000));
    marey::removeCallback(handle);
}
