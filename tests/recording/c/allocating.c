/* SIGTERM comes to a thread that has never recorded, in the middle of its allocator. */
#include "marey.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t elements, size_t bytes);

/* Set by the thread, and read by it: no other allocation counts. */
static pthread_t terminated;
static volatile sig_atomic_t is_next_terminated;
static volatile sig_atomic_t is_inside;

/* What an allocator does that is entered again with its lock held: it never comes back. */
static void enter(void) {
    static const char text[] = "the allocator was entered again\n";
    if (is_inside && pthread_equal(pthread_self(), terminated)) {
        ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
        _exit(written > 0 ? 3 : 4);
    }
}

void *malloc(size_t bytes) {
    enter();
    if (is_next_terminated && pthread_equal(pthread_self(), terminated)) {
        is_next_terminated = 0;
        is_inside = 1;
        raise(SIGTERM);
        is_inside = 0;
    }
    return __libc_malloc(bytes);
}

void *calloc(size_t elements, size_t bytes) {
    enter();
    return __libc_calloc(elements, bytes);
}

static void *allocate(void *unused) {
    (void)unused;
    terminated = pthread_self();
    is_next_terminated = 1;
    return malloc(10);
}

int main(void) {
    pthread_t thread;
    void *allocated;
    if (marey_start("allocating", NULL, NULL) < 0) {
        return 1;
    }
    marey_scope_enter(marey_name("work"));
    marey_scope_exit(marey_name("work"));
    pthread_create(&thread, NULL, allocate, NULL);
    pthread_join(thread, &allocated);
    free(allocated);
    return 2;
}
