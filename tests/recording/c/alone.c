/* A C program under marey: every kind of call, two sessions, threads, a fork, no finalize. */
#include "marey.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 2, SCOPES_PER_THREAD = 1000 };

static void check(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "failed: %s\n", what);
        exit(1);
    }
}
#define CHECK(condition) check((condition), #condition)

static void *work(void *argument) {
    for (int i = 0; i < SCOPES_PER_THREAD; ++i) {
        marey_scope_enter(MAREY_NAME("work"));
        marey_scope_exit(MAREY_NAME("work"));
    }
    return argument;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static void add_metrics(void) {
    const int64_t whole[] = {1, -2};
    const double real[] = {0.5, 1.5};
    marey_enter("metrics");
    for (int i = 0; i < 2; ++i) {
        CHECK(marey_metric_i64("items", 20) == MAREY_OK);
        CHECK(marey_metric_f64("joules (exc)", 0.25) == MAREY_OK);
        CHECK(marey_metric_text("device", "r\xc3\xb6hre") == MAREY_OK);
        CHECK(marey_metric_i64s("shape", whole, 2) == MAREY_OK);
        CHECK(marey_metric_f64s("weights (pty)", real, 2) == MAREY_OK);
    }
    CHECK(marey_metric_f64("items", 1.0) == MAREY_ERROR_METRIC);
    CHECK(marey_metric_i64s("shape", whole, 1) == MAREY_ERROR_METRIC);
    CHECK(marey_metric_text("device", NULL) == MAREY_ERROR_ARGUMENT);
    CHECK(marey_metric_i64(NULL, 1) == MAREY_ERROR_ARGUMENT);
    CHECK(marey_exit() != 0);
}

static void use_states(void) {
    marey_scope_enter(MAREY_NAME("stateful"));
    marey_state_enter(MAREY_NAME("cold"));
    marey_state_enter(MAREY_NAME("warm"));
    CHECK(marey_state_exit());
    CHECK(marey_state_exit());
    CHECK(!marey_state_exit());
    marey_scope_exit(MAREY_NAME("stateful"));
}

static void run_child(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        marey_enter("in the child");
        marey_exit();
        exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("child %d\n", (int)child);
}

static void use_sessions(int64_t first) {
    marey_error_t error;
    marey_options_t options;
    memset(&options, 0, sizeof options);
    options.format = MAREY_HATCHET_MSGPACK;
    const int64_t second = marey_start("second", &options, &error);
    CHECK(second > first && error.code == MAREY_OK && error.message[0] == '\0');
    CHECK(marey_start("second", NULL, NULL) == second);
    CHECK(marey_depth(first, NULL) == 1 && marey_depth(second, NULL) == 0);
    marey_enter("seen by both");
    CHECK(marey_depth(first, NULL) == 2 && marey_depth(second, NULL) == 1);
    marey_exit();
    CHECK(marey_deactivate(second, &error) == MAREY_OK);
    marey_enter("seen by the first");
    marey_exit();
    CHECK(marey_activate(second, NULL) == MAREY_OK);
    CHECK(marey_finalize(second, NULL) == MAREY_OK);
    CHECK(marey_finalize(second, &error) == MAREY_ERROR_NOT_FOUND);
    CHECK(strstr(error.message, "Session") != NULL);
    CHECK(marey_activate(MAREY_NO_SESSION, NULL) == MAREY_ERROR_NOT_FOUND);
}

static void advance_phases(void) {
    const int64_t phased = marey_start("phased", NULL, NULL);
    for (int64_t phase = 1; phase <= 2; ++phase) {
        marey_enter("phase");
        marey_exit();
        CHECK(marey_advance_phase(phased, NULL) == phase);
    }
    CHECK(marey_finalize(phased, NULL) == MAREY_OK);
    CHECK(marey_advance_phase(phased, NULL) == -1);
}

int main(void) {
    CHECK(marey_scope_enter(MAREY_NAME("before")) == 0);
    const int64_t first = marey_start("first", NULL, NULL);
    CHECK(first >= 0);
    const uint64_t outer = marey_scope_enter(MAREY_NAME("outer"));
    CHECK(outer != 0);
    run_threads();
    add_metrics();
    use_states();
    use_sessions(first);
    advance_phases();
    run_child();
    for (int i = 0; i < 3; ++i) {
        marey_step_begin();
        marey_enter("in a step");
        marey_exit();
        marey_step_end();
    }
    marey_checkpoint();
    CHECK(marey_scope_exit(MAREY_NAME("outer")) == outer);
    CHECK(marey_exit() == 0);
    return 0;
}
