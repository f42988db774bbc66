/*
 * Enters and leaves scopes, states and operators through marey.h, on request.
 *
 *     native SESSIONS [trace]
 *
 * starts that many sessions in the current directory, which keep every event with `trace`. Each
 * line `WORKLOAD COUNT` on the standard input is answered with the nanoseconds of one item.
 */
#define _GNU_SOURCE
#include "marey.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#define MAX_THREADS 2
/* Enough for a thread's tree to be built and its caches to be warm. */
#define WARM_UP_SCOPES 1000

typedef void (*work_t)(long count);

static void enter_scopes(long count) {
    uint32_t name = MAREY_NAME("scope");
    for (long i = 0; i < count; i++) {
        marey_scope_enter(name);
        marey_scope_exit(name);
    }
}

static void enter_states(long count) {
    uint32_t name = MAREY_NAME("state");
    for (long i = 0; i < count; i++) {
        marey_state_enter(name);
        marey_state_exit();
    }
}

static void enter_operators(long count) {
    uint32_t name = MAREY_NAME("operator");
    const marey_table_t *table = marey_load();
    for (long i = 0; i < count; i++) {
        table->operator_enter(name);
        table->operator_exit(name);
    }
}

/* What any recorder that times both ends of a scope must pay: two readings of the clock. */
static void read_clock_pairs(long count) {
#ifdef __x86_64__
    uint64_t sum = 0;
    for (long i = 0; i < count; i++) {
        sum += __builtin_ia32_rdtsc();
        sum += __builtin_ia32_rdtsc();
    }
    __asm__ volatile("" : : "r"(sum));
#else
    struct timespec time;
    for (long i = 0; i < count; i++) {
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

static double read_nanos(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double time_on_this_thread(work_t work, long count) {
    double start = read_nanos(CLOCK_PROCESS_CPUTIME_ID);
    measured(work, count);
    return (read_nanos(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)count;
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
    enter_scopes(WARM_UP_SCOPES);
    __atomic_sub_fetch(member->waiting, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(member->waiting, __ATOMIC_ACQUIRE) > 0) {
    }
    member->start_nanos = read_nanos(CLOCK_MONOTONIC);
    enter_scopes(member->count);
    member->end_nanos = read_nanos(CLOCK_MONOTONIC);
    return NULL;
}

/* Wall time from the first thread's start to the last one's end, by all the scopes of all. */
static double time_on_threads(int threads, long count) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    member_t members[MAX_THREADS];
    int waiting = threads;
    for (int i = 0, cpu = 0; i < threads; i++, cpu++) {
        while (!CPU_ISSET(cpu, &allowed)) {
            cpu++;
        }
        members[i].cpu = cpu;
        members[i].count = count / threads + 1;
        members[i].waiting = &waiting;
        pthread_create(&members[i].thread, NULL, run_member, &members[i]);
    }
    double start = 1e300, end = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(members[i].thread, NULL);
        start = members[i].start_nanos < start ? members[i].start_nanos : start;
        end = members[i].end_nanos > end ? members[i].end_nanos : end;
    }
    return (end - start) / (double)(members[0].count * threads);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static double run_workload(const char *workload, long count) {
    if (strcmp(workload, "scope") == 0) {
        return time_on_this_thread(enter_scopes, count);
    }
    if (strcmp(workload, "state") == 0) {
        return time_on_this_thread(enter_states, count);
    }
    if (strcmp(workload, "operator") == 0) {
        return time_on_this_thread(enter_operators, count);
    }
    if (strcmp(workload, "clock") == 0) {
        return time_on_this_thread(read_clock_pairs, count);
    }
    if (strcmp(workload, "1-thread") == 0) {
        return time_on_threads(1, count);
    }
    if (strcmp(workload, "2-threads") == 0) {
        return time_on_threads(2, count);
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
        printf("%.3f\n", run_workload(workload, count));
        fflush(stdout);
    }
    return 0;
}
