/*
 * Plays libtorch_cpu.so for marey: observed functions without PyTorch, so that only what marey does
 * at the start and the end of one is counted. Built as a library of that name, which marey finds in
 * the process.
 */
#include "torch_double.h"

#include <stdlib.h>

#define MAX_CALLBACKS 8

/* at::RecordFunctionCallback. */
typedef struct registration {
    /* C++ returns a pointer object in memory of the caller, as C returns a large structure. */
    struct large {
        void *context;
        void *padding[2];
    } (*start)(const function_t *function);
    void (*end)(const function_t *function, void *context);
    double probability;
    bool observes[10];
    bool needs[3];
} registration_t;

static registration_t callbacks[MAX_CALLBACKS];
static int num_callbacks;

uint64_t _ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE(registration_t registration) {
    if (num_callbacks == MAX_CALLBACKS) {
        abort();
    }
    callbacks[num_callbacks] = registration;
    return (uint64_t)num_callbacks++;
}

/* Called at forks. The benchmark does not fork. */
uint64_t _ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE(registration_t registration) {
    (void)registration;
    abort();
}

void _ZN2at14removeCallbackEm(uint64_t handle) {
    (void)handle;
}

const char *_ZNK2at14RecordFunction4nameEv(const function_t *function) {
    return function->name;
}

const char *_ZNK2at14RecordFunction13overload_nameEv(const function_t *function) {
    return function->overload;
}

uint64_t _ZN2at14RecordFunction15currentThreadIdEv(void) {
    return 1;
}

void run_functions(const function_t *function, long count) {
    for (long i = 0; i < count; i++) {
        for (int number = 0; number < num_callbacks; number++) {
            if (callbacks[number].observes[function->kind]) {
                callbacks[number].start(function);
            }
        }
        for (int number = 0; number < num_callbacks; number++) {
            if (callbacks[number].observes[function->kind]) {
                callbacks[number].end(function, NULL);
            }
        }
    }
}
