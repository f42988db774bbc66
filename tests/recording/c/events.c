/* Counts performance events again and again. Prints the growth of the heap in bytes. */
#include "marey.h"

#include <malloc.h>
#include <stdio.h>

enum { WARM_UP = 10, ROUNDS = 1000 };

static int count_once(const marey_table_t *table) {
    static const char events[] = "page_faults,task_clock";
    marey_error_t error;
    if (table->performance_events(events, sizeof events - 1, &error) != MAREY_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    marey_enter("counted");
    marey_exit();
    return table->performance_events("", 0, &error);
}

static long heap_bytes(void) { return (long)mallinfo2().uordblks; }

int main(void) {
    const marey_table_t *table = marey_load();
    if (table == NULL || marey_start("events", NULL, NULL) < 0) {
        return 1;
    }
    long before = 0;
    for (int i = 0; i < WARM_UP + ROUNDS; ++i) {
        if (i == WARM_UP) {
            before = heap_bytes();
        }
        if (count_once(table) != 0) {
            return 1;
        }
    }
    printf("%ld\n", heap_bytes() - before);
    return 0;
}
