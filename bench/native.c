/*
 * Enters and leaves scopes, states and operators through marey.h, on request.
 *
 *     native SESSIONS [trace]
 *
 * starts that many sessions in the current directory, which keep every event with `trace`. Each line `WORKLOAD COUNT` on the standard
 * input is answered with the nanoseconds that one item took.
 */
#define _GNU_SOURCE
#include "marey.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#define MAX_THREADS 2
/* Enough for a thread's tree to be built and its caches to be warm. */
#define WARM_UP 1000

typedef void (*work_t)(long count);

static void scopes(long count) {
    uint32_t name = MAREY_NAME("scope");
    for (long at = 0; at < count; at++) {
        marey_scope_enter(name);
        marey_scope_exit(name);
    }
}

static void states(long count) {
    uint32_t name = MAREY_NAME("state");
    for (long at = 0; at < count; at++) {
        marey_state_enter(name);
        marey_state_exit();
    }
}

static void operators(long count) {
    uint32_t name = MAREY_NAME("operator");
    const marey_table_t *table = marey_load();
    for (long at = 0; at < count; at++) {
        table->operator_enter(name);
        table->operator_exit(name);
    }
}

/* What any recorder that times both ends of a scope must pay: two readings of the clock. */
static void clock_pairs(long count) {
#ifdef __x86_64__
    uint64_t sum = 0;
    for (long at = 0; at < count; at++) {
        sum += __builtin_ia32_rdtsc();
        sum += __builtin_ia32_rdtsc();
    }
    __asm__ volatile("" : : "r"(sum));
#else
    struct timespec time;
    for (long at = 0; at < count; at++) {
        clock_gettime(CLOCK_MONOTONIC, &time);
        clock_gettime(CLOCK_MONOTONIC, &time);
    }
#endif
}

/* instructions.py counts what runs inside this function. */
__attribute__((noinline)) void measured(work_t work, long count) {
    work(count);
    /* No tail call: the function must still be on the stack. */
    __asm__ volatile("");
}

static double nanos(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double on_this_thread(work_t work, long count) {
    double start = nanos(CLOCK_PROCESS_CPUTIME_ID);
    measured(work, count);
    return (nanos(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)count;
}

/* ---- Several threads at once ----------------------------------------------------------------- */

typedef struct member {
    pthread_t thread;
    int cpu;
    long count;
    int *waiting;
    double start_nanos;
    double end_nanos;
} member_t;

static void *run_member(void *argument) {
    member_t *member = argument;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(member->cpu, &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    scopes(WARM_UP);
    __atomic_sub_fetch(member->waiting, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(member->waiting, __ATOMIC_ACQUIRE) > 0) {
    }
    member->start_nanos = nanos(CLOCK_MONOTONIC);
    scopes(member->count);
    member->end_nanos = nanos(CLOCK_MONOTONIC);
    return NULL;
}

/* Wall time from the first thread's start to the last one's end, by all the scopes of all. */
static double on_threads(int threads, long count) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    member_t members[MAX_THREADS];
    int waiting = threads;
    for (int at = 0, cpu = 0; at < threads; at++, cpu++) {
        while (!CPU_ISSET(cpu, &allowed)) {
            cpu++;
        }
        members[at].cpu = cpu;
        members[at].count = count / threads + 1;
        members[at].waiting = &waiting;
        pthread_create(&members[at].thread, NULL, run_member, &members[at]);
    }
    double start = 1e300, end = 0;
    for (int at = 0; at < threads; at++) {
        pthread_join(members[at].thread, NULL);
        start = members[at].start_nanos < start ? members[at].start_nanos : start;
        end = members[at].end_nanos > end ? members[at].end_nanos : end;
    }
    return (end - start) / (double)(members[0].count * threads);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static double answer(const char *workload, long count) {
    if (strcmp(workload, "scope") == 0) {
        return on_this_thread(scopes, count);
    }
    if (strcmp(workload, "state") == 0) {
        return on_this_thread(states, count);
    }
    if (strcmp(workload, "operator") == 0) {
        return on_this_thread(operators, count);
    }
    if (strcmp(workload, "clock") == 0) {
        return on_this_thread(clock_pairs, count);
    }
    if (strcmp(workload, "1-thread") == 0) {
        return on_threads(1, count);
    }
    if (strcmp(workload, "2-threads") == 0) {
        return on_threads(2, count);
    }
    fprintf(stderr, "there is no workload %s\n", workload);
    exit(1);
}

static void start_session(int number, const marey_options_t *options) {
    char name[32];
    marey_error_t error;
    snprintf(name, sizeof name, "native%d", number);
    if (marey_start(name, options, &error) == MAREY_NO_SESSION) {
        fprintf(stderr, "no session: %s\n", error.message);
        exit(1);
    }
}

int main(int argc, char **argv) {
    int sessions = argc > 1 ? atoi(argv[1]) : 0;
    if (marey_load() == NULL) {
        fprintf(stderr, "no library: %s\n", marey_absence_);
        return 1;
    }
    marey_options_t options = {0};
    if (argc > 2 && strcmp(argv[2], "trace") == 0) {
        options.format = MAREY_CHROME_TRACE;
    }
    for (int number = 0; number < sessions; number++) {
        start_session(number, &options);
    }
    char workload[32];
    long count;
    while (scanf("%31s %ld", workload, &count) == 2) {
        printf("%.3f\n", answer(workload, count));
        fflush(stdout);
    }
    return 0;
}
