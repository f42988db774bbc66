/* A signal handler enters scopes while the program does; it often interrupts an event. */
#include "marey.h"

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { SIGNALS = 2000 };

static uint32_t handled;
static volatile sig_atomic_t signals;
static volatile sig_atomic_t recorded;

static void on_alarm(int signal) {
    (void)signal;
    ++signals;
    if (marey_scope_enter(handled) != 0) {
        ++recorded;
        marey_state_enter(handled);
        marey_state_exit();
        marey_scope_exit(handled);
    }
}

int main(void) {
    struct sigaction action;
    const struct itimerval fast = {{0, 100}, {0, 100}};
    const struct itimerval off = {{0, 0}, {0, 0}};
    const uint32_t looped = marey_name("looped");
    long loops = 0;

    handled = marey_name("handled");
    if (marey_start("signals", NULL, NULL) < 0) {
        return 1;
    }
    /* Every place that the handler may find is made before the first signal. */
    on_alarm(0);
    marey_scope_enter(looped);
    on_alarm(0);
    marey_scope_exit(looped);
    signals = recorded = 0;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &fast, NULL);
    while (signals < SIGNALS) {
        marey_scope_enter(looped);
        marey_scope_exit(looped);
        ++loops;
    }
    setitimer(ITIMER_REAL, &off, NULL);
    printf("%ld %d %d\n", loops, (int)signals, (int)recorded);
    return 0;
}
