// A library whose scope is in a static function. It is closed before the profile ends.
#include <marey.hpp>

static __attribute__((noinline)) void hidden_in_library() { RECORD_FUNCTION("closed", {}); }

extern "C" __attribute__((visibility("default"))) void work_in_library() {
    hidden_in_library();
    asm volatile(""); // the call above is no jump
}
