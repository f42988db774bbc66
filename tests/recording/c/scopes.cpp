// The C++ side of marey.h: scopes and states that end with their block, also by an exception.
#include "marey.h"

#include <stdexcept>
#include <string>
#include <thread>

static void fails() {
    MAREY_SCOPE("fails");
    throw std::runtime_error("expected");
}

static void recurse(int levels) {
    MAREY_SCOPE("recurse");
    if (levels > 1) {
        recurse(levels - 1);
    }
}

int main() {
    // Entered before any session: leaving it must not look like an exit that nobody entered.
    const marey::Scope early("early");
    const marey::State early_state("early");
    if (marey_start("scopes", nullptr, nullptr) < 0) {
        return 1;
    }
    MAREY_SCOPE("main");
    try {
        fails();
    } catch (const std::runtime_error &) {
        const marey::Scope handler("handler");
        const marey::State state(MAREY_NAME("recovering"));
    }
    recurse(3);
    for (int i = 0; i < 2; ++i) {
        const marey::Scope named(std::string("call ").append(std::to_string(i)).c_str());
        const marey::Scope module(MAREY_NAME("layer"), MAREY_KIND_MODULE);
    }
    std::thread([] { MAREY_SCOPE("on a thread"); }).join();
    return 0;
}
