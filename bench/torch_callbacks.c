/*
 * Runs observed functions of the double of libtorch under marey's callbacks:
 *
 *     torch_callbacks operator|autograd|user COUNT [trace]
 *
 * for `bench/instructions.py`, which counts what runs inside `measured`.
 */
#define _GNU_SOURCE
#include "marey.h"

#include "torch_double.h"

#include <stdio.h>

/* Enough for a thread's tree to be built and its caches to be warm. */
#define WARM_UP_FUNCTIONS 1000

static const function_t functions[] = {
    {"aten::add", "Tensor", 0}, {"AddBackward0", "", 1}, {"my scope", "", 7}};

__attribute__((noinline)) void measured(const function_t *function, long count) {
    run_functions(function, count);
    /* No tail call: the function must still be on the stack. */
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    const marey_table_t *table = marey_load();
    if (table == NULL || argc < 3) {
        fprintf(stderr, "no library or arguments: %s\n", marey_absence_);
        return 1;
    }
    marey_error_t error = {0};
    marey_options_t options = {0};
    if (argc > 3 && strcmp(argv[3], "trace") == 0) {
        options.format = MAREY_CHROME_TRACE;
    }
    if (marey_start("callbacks", &options, &error) == MAREY_NO_SESSION ||
        table->torch_operators(true, 0, 0, &error) != 0) {
        fprintf(stderr, "nothing records: %s\n", error.message);
        return 1;
    }
    const char *kinds[] = {"operator", "autograd", "user"};
    for (int kind = 0; kind < 3; kind++) {
        if (strcmp(argv[1], kinds[kind]) == 0) {
            run_functions(&functions[kind], WARM_UP_FUNCTIONS);
            measured(&functions[kind], atol(argv[2]));
            return 0;
        }
    }
    fprintf(stderr, "there is no kind %s\n", argv[1]);
    return 1;
}
