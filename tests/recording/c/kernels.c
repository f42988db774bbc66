/* A C program that launches kernels on the double of NVIDIA's libraries, and ends with its session open. */
#include "marey.h"

#include <stdio.h>

enum { KERNELS = 1000, STREAM = 7, NANOS = 5 };

static int failed(const char *what) {
    fprintf(stderr, "failed: %s\n", what);
    return 1;
}

/* A function of a library, which C has no cast for. */
static void find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

int main(void) {
    const void *(*name)(const char *) = NULL;
    void (*launch)(const void *, uint32_t, uint64_t, uint64_t) = NULL;
    marey_gpu_options_t options;
    marey_error_t error;
    void *cuda;

    if (marey_start("kernels", NULL, &error) < 0) {
        return failed(error.message);
    }
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.is_required = 1;
    options.paths = "";
    if (marey_load()->gpu_start(&options, &error) != MAREY_OK) {
        return failed(error.message);
    }
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    find(cuda, "replay_name", &name);
    find(cuda, "replay_launch_many", &launch);
    if (name == NULL || launch == NULL) {
        return failed("no double");
    }
    marey_enter("step");
    launch(name("kernel"), STREAM, NANOS, KERNELS);
    marey_exit();
    return 0;
}
