/* The observed functions of the double of libtorch. */
#ifndef TORCH_DOUBLE_H
#define TORCH_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

/* at::RecordFunction, of which marey reads nothing itself without positions of private fields. */
typedef struct function {
    const char *name;
    const char *overload;
    int kind;
} function_t;

/* Starts and ends a function so many times, with the callbacks that observe its kind. */
void run_functions(const function_t *function, long count);

#endif
