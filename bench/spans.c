/*
 * Records host spans through marey.h, as a program does that has no more to do than enter scopes.
 *
 *     spans NAME COUNT
 *
 * writes the run directory NAME.marey with about COUNT spans: steps of 10 layers with 9 operations
 * each. 20 kinds of steps follow each other, so there are 2,000 names.
 */
#define _GNU_SOURCE
#include "marey.h"

#include <stdio.h>
#include <time.h>

#define STEP_KINDS 20
#define LAYERS 10
#define OPERATIONS 9
#define SPANS_PER_STEP (1 + LAYERS * (1 + OPERATIONS))

/* Steps between two pauses: fewer spans than a thread's ring holds, so none is lost. */
#define STEPS_PER_PAUSE 500
#define PAUSE_NANOS (5 * 1000 * 1000)

static uint32_t layers[STEP_KINDS][LAYERS];
static uint32_t operations[STEP_KINDS][LAYERS][OPERATIONS];

static void intern_names(void) {
    char text[64];
    for (int kind = 0; kind < STEP_KINDS; kind++) {
        for (int layer = 0; layer < LAYERS; layer++) {
            snprintf(text, sizeof text, "model_%d.layer_%d", kind, layer);
            layers[kind][layer] = marey_name(text);
            for (int operation = 0; operation < OPERATIONS; operation++) {
                snprintf(text, sizeof text, "model_%d.layer_%d.operation_%d", kind, layer,
                         operation);
                operations[kind][layer][operation] = marey_name(text);
            }
        }
    }
}

static void record_step(long number) {
    int kind = (int)(number % STEP_KINDS);
    marey_step_begin();
    for (int layer = 0; layer < LAYERS; layer++) {
        marey_scope_enter(layers[kind][layer]);
        for (int operation = 0; operation < OPERATIONS; operation++) {
            uint32_t name = operations[kind][layer][operation];
            marey_scope_enter(name);
            marey_scope_exit(name);
        }
        marey_scope_exit(layers[kind][layer]);
    }
    marey_step_end();
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: spans NAME COUNT\n");
        return 2;
    }
    if (marey_load() == NULL) {
        fprintf(stderr, "no library: %s\n", marey_absence_);
        return 1;
    }
    marey_error_t error;
    marey_options_t options = {.format = MAREY_RUN};
    if (marey_start(argv[1], &options, &error) == MAREY_NO_SESSION) {
        fprintf(stderr, "no session: %s\n", error.message);
        return 1;
    }
    intern_names();
    long steps = (atol(argv[2]) + SPANS_PER_STEP - 1) / SPANS_PER_STEP;
    for (long number = 0; number < steps; number++) {
        if (number % STEPS_PER_PAUSE == STEPS_PER_PAUSE - 1) {
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOS}, NULL);
        }
        record_step(number);
    }
    return marey_finalize(MAREY_ALL_SESSIONS, &error) == MAREY_OK ? 0 : 1;
}
