/*
 * marey.h: scopes, states, metrics and sessions for C11 and C++17 programs.
 *
 * Header-only; link with -ldl where the C library wants it. The header finds libmarey.so when the
 * first call needs it. Without the library every call is a no-op that costs two loads and a branch,
 * so an annotated program runs, and may be shipped, without marey.
 *
 *     marey_start("profile", NULL, NULL);           // writes profile.hatchet at the end
 *     marey_scope_enter(MAREY_NAME("solve"));
 *     marey_metric_i64("iterations", 12);
 *     marey_scope_exit(MAREY_NAME("solve"));
 *     marey_finalize(MAREY_ALL_SESSIONS, NULL);     // or just exit
 *
 * All bindings of marey in a process (this header in any number of libraries, the Python package)
 * share the one recorder of libmarey.so: their scopes nest, and one session sees them all.
 *
 * Threads: every function may be called from any thread. Scopes and states belong to the thread
 * that enters them. A thread's first scope is a child of the scope that the main thread has open
 * at that time.
 *
 * Signals: marey_scope_enter, marey_scope_exit and the state functions may be called in a signal
 * handler that cannot interrupt malloc or free, for example if the program blocks the signal around
 * them. These functions may allocate memory: for a new child scope or state, in a thread's first
 * event in a session or phase, and for the first duration of a scope or state in each power of two.
 * An event that interrupts another one is dropped and counted in the profile's
 * `losses.reentrant_events`. A handler may jump elsewhere (siglongjmp), but not out of a call of
 * this header: after that the thread records nothing any more, which is counted in
 * `losses.stuck_threads`.
 *
 * Environment: MAREY_LIB names the library's file, MAREY_DISABLE=1 makes every call a no-op.
 */
#ifndef MAREY_H
#define MAREY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "marey_enums.h"

/* Each library has its own hidden copy of the functions and variables. */
#ifdef __cplusplus
#define MAREY_VAR_ inline __attribute__((visibility("hidden")))
#define MAREY_FN_ inline __attribute__((visibility("hidden")))
extern "C" {
#else
#define MAREY_VAR_ static
#define MAREY_FN_ static inline
#endif

/* ---- The library's interface ----------------------------------------------------------------- */

/** Version of the function table that this header knows. */
#define MAREY_ABI_VERSION 1u
/** Size of an error's message in bytes, its final zero included. */
#define MAREY_ERROR_BYTES 512
/** The number of a metric's name if the table of names is full. */
#define MAREY_NO_METRIC UINT32_MAX
/** The session number that means all sessions. */
#define MAREY_ALL_SESSIONS INT64_C(-1)
/** The result of marey_start when it fails. Every call rejects this session number. */
#define MAREY_NO_SESSION INT64_C(-2)

/** The result of a call. */
enum marey_code {
    MAREY_ABSENT = -1,         /**< No libmarey.so, one of another version, or MAREY_DISABLE. */
    MAREY_OK = 0,              /**< Success. */
    MAREY_ERROR_ARGUMENT = 1,  /**< A null pointer or an unknown value. */
    MAREY_ERROR_NOT_FOUND = 2, /**< The session or phase does not exist. */
    MAREY_ERROR_LIMIT = 3,     /**< A limit was reached. */
    MAREY_ERROR_IO = 4,        /**< A file could not be written. */
    MAREY_ERROR_METRIC = 5,    /**< A metric's value has another type or length than before. */
    MAREY_ERROR_INTERNAL = 6,  /**< A bug in marey. */
    MAREY_ERROR_UNSUPPORTED = 7 /**< The session or machine does not support the call. */
};

/** The type of a metric's value. */
enum marey_tag {
    MAREY_INT = 1,    /**< One int64_t. */
    MAREY_FLOAT = 2,  /**< One double. */
    MAREY_TEXT = 3,   /**< UTF-8 bytes. */
    MAREY_INTS = 4,   /**< An array of int64_t. */
    MAREY_FLOATS = 5  /**< An array of double. */
};

/** The source of a session's paths. */
enum marey_context {
    MAREY_SHADOW = 0, /**< The scopes that were entered. */
    MAREY_PYTHON = 1  /**< The Python frames that are executing, then the scope. */
};

/** The format of a profile's file. */
enum marey_format {
    MAREY_HATCHET = 0,         /**< JSON, `NAME.hatchet`. */
    MAREY_HATCHET_MSGPACK = 1, /**< MessagePack, `NAME.hatchet_msgpack`. */
    MAREY_CHROME_TRACE = 2,    /**< Every event, for Perfetto or Chrome, `NAME.chrome_trace`. */
    MAREY_RUN = 3              /**< Every event, as a run directory, `NAME.marey`. */
};

/** The error of a call. */
typedef struct marey_error {
    int32_t code;                    /**< An enum marey_code. */
    char message[MAREY_ERROR_BYTES]; /**< UTF-8, truncated to fit; empty after a success. */
} marey_error_t;

/** A value of a user metric. */
typedef struct marey_metric {
    uint32_t metric;  /**< From intern_metric of the table. */
    uint32_t tag;     /**< An enum marey_tag. */
    const void *data; /**< `len` elements of the tag's type. */
    size_t len;       /**< 1 for MAREY_INT and MAREY_FLOAT. */
} marey_metric_t;

/** The argument of the table's `start`. */
typedef struct marey_start_options {
    size_t size;             /**< sizeof(marey_start_options_t). */
    const char *name;        /**< Path of the profile without its extension. */
    size_t name_len;         /**< Size of the name in bytes. */
    uint32_t context;        /**< An enum marey_context. */
    uint32_t format;         /**< An enum marey_format. */
    uint32_t flush_phases;   /**< Not 0: write each phase when it is closed. */
    uint32_t quiet_if_empty; /**< Not 0: write no file if nothing was recorded. */
    uint32_t environment_noted; /**< Not 0: note_environment was called right before this. */
    uint32_t is_addressed_only; /**< Not 0: record only what session_scope addresses to it. */
    uint32_t is_ring;           /**< Not 0: keep only the last records; needs MAREY_RUN. */
} marey_start_options_t;

/** The argument of the table's `gpu_start`. */
typedef struct marey_gpu_options {
    size_t size;               /**< sizeof(marey_gpu_options_t). */
    uint32_t is_required;      /**< Not 0: fail without a backend, and initialise the driver. */
    uint32_t keeps_activities; /**< Not 0: keep single activities, and not only sums of kernels. */
    const char *paths;         /**< Folders of packages that may contain libraries, one per line. */
    size_t paths_len;          /**< Size of `paths` in bytes. */
} marey_gpu_options_t;

/** A sample of the Python stack of a thread. */
typedef struct marey_stack_sample {
    uint64_t os_id;          /**< The operating system's id of the sampled thread. */
    uint32_t thread_name;    /**< Its name, from intern of the table. */
    uint32_t node;           /**< The innermost frame, from frame_child on the calling thread. */
    uint64_t duration_nanos; /**< Time since the previous check whether a sample is due, for which
                                  this one stands; 0 for a signal or a request. */
} marey_stack_sample_t;

/** The value of a watched variable. */
typedef struct marey_variable {
    marey_metric_t value; /**< The value; its `metric` is the variable's name, from intern. */
    uint32_t value_type;  /**< The type of the value, from intern. */
} marey_variable_t;

/** The values of watched variables when a line began. */
typedef struct marey_line {
    uint64_t os_id;                    /**< The operating system's id of the thread. */
    uint32_t thread_name;              /**< Its name, from intern of the table. */
    uint32_t file;                     /**< The path of the file, from intern. */
    uint32_t function;                 /**< The function, from intern. */
    uint32_t line;                     /**< The line, from 1. */
    const marey_variable_t *variables; /**< The variables. */
    size_t len;                        /**< Number of variables. */
} marey_line_t;

/** A collective operation. A negative number means unknown; so does 0 in group_ranks and dtype. */
typedef struct marey_collective {
    uint32_t name;               /**< The operation, from intern of the table. */
    uint32_t group;              /**< The name of the group, from intern. */
    uint32_t group_ranks;        /**< The ranks of the group, such as "0-3,8", from intern. */
    uint32_t dtype;              /**< The type of the elements, from intern. */
    int64_t group_size;          /**< Number of ranks in the group. */
    int64_t sequence;            /**< Sequence number in the group. */
    int64_t in_elements;         /**< Number of input elements. */
    int64_t out_elements;        /**< Number of output elements. */
    int64_t created_unix_nanos;  /**< Time of the call since 1970. */
    int64_t started_unix_nanos;  /**< Start since 1970. */
    int64_t duration_nanos;      /**< Duration. */
    uint32_t state;              /**< 0: scheduled, 1: started, 2: completed. */
    uint32_t is_p2p;             /**< 1 for a point-to-point message, else 0. */
} marey_collective_t;

/** A scope outside of any thread's stack, such as a coroutine's. */
typedef struct marey_detached marey_detached_t;

/** Receives the innermost scope of a task, or null. The scope must be valid until it returns. */
typedef void (*marey_task_receiver_t)(void *receiver, const marey_detached_t *scope);

/** Calls `receive` once, before it returns, with the scope of the task on the calling thread. */
typedef void (*marey_task_provider_t)(marey_task_receiver_t receive, void *receiver);

/** An activity of a device, or a call of its API on a thread of the host. */
typedef struct marey_device_event {
    const char *name;        /**< UTF-8, not terminated. */
    size_t name_len;         /**< Size of the name in bytes. */
    uint64_t thread;         /**< Kernel id of the calling thread; 0 for an activity. */
    int64_t start_nanos;     /**< Start, on CLOCK_MONOTONIC. */
    uint64_t duration_nanos; /**< Duration. */
    uint64_t bytes;          /**< Bytes copied or filled. */
    int32_t kind;            /**< -1: call on the host, 0: kernel, 1: copy, 2: fill,
                                  3: synchronisation, 4: overhead of the vendor's library. */
    uint32_t device;         /**< Device number. */
    uint32_t stream;         /**< Stream; UINT32_MAX for none. */
    uint32_t correlation;    /**< Shared by a call and its activities; 0 for none. */
    uint32_t sizes[6];       /**< Grid in blocks and block in threads, x to z; 0 if no kernel. */
    uint32_t registers;      /**< Registers per thread. */
    uint32_t reserved;       /**< Zero. */
} marey_device_event_t;

/** Receives a device event. It is valid until the function returns, which leaves the `error` of
    the call alone. */
typedef void (*marey_device_event_receiver_t)(void *context, const marey_device_event_t *event);

/** Receives bytes that a call returns. The bytes are valid until the function returns, which leaves
    the `error` of the call alone. */
typedef void (*marey_sink_t)(void *context, const uint8_t *bytes, size_t len);

/**
 * The functions of libmarey.so. New functions are only added at the end of the table: `size` shows
 * which exist. Functions that are not wrapped below are meant for bindings to other languages.
 */
typedef struct marey_table {
    size_t size;
    uint32_t abi_version;
    uint32_t reserved;
    const uint64_t *live;

    uint32_t (*intern)(const char *name, size_t len);
    uint32_t (*intern_metric)(const char *name, size_t len);

    uint64_t (*scope_enter)(uint32_t name, uint8_t kind);
    uint64_t (*scope_exit)(uint32_t name);
    uint64_t (*operator_enter)(uint32_t name);
    uint64_t (*operator_exit)(uint32_t name);
    void (*state_enter)(uint32_t name);
    bool (*state_exit)(void);
    void (*step_begin)(void);
    void (*step_end)(void);
    uint32_t (*top_name)(void);
    int32_t (*add_metrics)(const marey_metric_t *values, size_t len, marey_error_t *error);

    const marey_detached_t *(*detached_enter)(const marey_detached_t *parent, uint32_t name,
                                              uint8_t kind);
    void (*detached_exit)(const marey_detached_t *scope);
    int32_t (*detached_add_metrics)(const marey_detached_t *scope, const marey_metric_t *values,
                                    size_t len, marey_error_t *error);
    void (*detached_release)(const marey_detached_t *scope);
    uint64_t (*detached_id)(const marey_detached_t *scope);

    void (*set_frame_provider)(uint32_t (*provider)(void));
    uint32_t (*frame_root)(uint64_t *generation);
    uint32_t (*frame_child)(uint32_t parent, uint32_t name);

    int64_t (*start)(const marey_start_options_t *options, marey_error_t *error);
    int32_t (*activate)(int64_t session, marey_error_t *error);
    int32_t (*deactivate)(int64_t session, marey_error_t *error);
    int32_t (*finalize)(int64_t session, const char *format, size_t format_len, marey_sink_t paths,
                        void *context, marey_error_t *error);
    int64_t (*advance_phase)(int64_t session, marey_error_t *error);
    int32_t (*is_phase_complete)(int64_t session, uint32_t phase, marey_error_t *error);
    int32_t (*clear)(int64_t session, uint32_t phase, bool includes_earlier, marey_error_t *error);
    int32_t (*get_data)(int64_t session, uint32_t phase, const char *format, size_t format_len,
                        marey_sink_t sink, void *context, marey_error_t *error);
    int64_t (*depth)(int64_t session, marey_error_t *error);
    int32_t (*context)(int64_t session, marey_error_t *error);
    int32_t (*set_quiet_if_empty)(int64_t session, marey_error_t *error);
    void (*checkpoint)(void);
    void (*after_fork_in_parent)(void);
    void (*name_text)(uint32_t name, marey_sink_t sink, void *context);
    size_t (*sessions)(int64_t *sessions, size_t len);
    void (*defer_fork_restart)(void);
    int32_t (*run_dir)(int64_t session, marey_sink_t sink, void *context, marey_error_t *error);

    const uint64_t *active;
    uint64_t (*operator_exit_id)(uint64_t id);
    const marey_detached_t *(*detached_here)(void);
    uint64_t (*detached_operator_enter)(const marey_detached_t *scope, uint32_t name);
    void (*count_losses)(uint8_t cause, uint64_t losses);
    int32_t (*gpu_start)(const marey_gpu_options_t *options, marey_error_t *error);
    int32_t (*gpu_level)(marey_sink_t sink, void *context);
    int32_t (*gpu_probe)(const char *question, size_t question_len, const char *paths,
                         size_t paths_len, marey_sink_t sink, void *context, marey_error_t *error);
    void (*gpu_note)(const char *text, size_t len);
    void (*note_environment)(void);
    void (*set_task_provider)(marey_task_provider_t provider);
    int32_t (*torch_operators)(bool is_on, uint8_t sequence_field, uint8_t forward_thread_field,
                               marey_error_t *error);
    int32_t (*performance_events)(const char *names, size_t names_len, marey_error_t *error);
    void (*torch_shapes)(uint32_t shapes, uint64_t fields);
    bool (*gpu_pause)(bool is_paused);
    int32_t (*torch_ids)(bool is_on, marey_error_t *error);
    size_t (*active_sessions)(int64_t *sessions, size_t len);
    void (*note)(const char *key, size_t key_len, const char *text, size_t text_len);
    void (*record_collectives)(const marey_collective_t *collectives, size_t len);
    double (*setting)(uint32_t setting);
    bool (*set_setting)(uint32_t setting, double value);
    void (*record_samples)(const marey_stack_sample_t *samples, size_t len, uint8_t cause);
    void (*set_settings_listener)(bool (*listener)(void));
    uintptr_t *cpp_state;
    void (*scope_args)(uint32_t name, const char *json, size_t json_len);
    void (*scope_exit_autograd)(uint32_t name, uint64_t sequence, uint64_t forward_os_id);
    size_t (*performance_counts)(uint32_t *metrics, uint64_t *counts, size_t len);
    int32_t (*device_events)(const char *run, size_t run_len, int64_t session,
                             marey_device_event_receiver_t receive, void *context,
                             marey_error_t *error);
    void (*end_idle_threads)(void);
    const marey_detached_t *(*session_scope)(int64_t session, const marey_detached_t *scope,
                                             marey_error_t *error);
    size_t (*context_names)(uint32_t context, uint32_t *names, size_t len);
    uint32_t (*state_name)(void);
    uint64_t (*scope_enter_timed)(uint32_t name, uint8_t kind);
    uint64_t (*scope_exit_timed)(uint32_t name);
    uint64_t (*ticks)(void);
    uint64_t (*monotonic_nanos)(uint64_t ticks);
    uintptr_t *(*cpp_thread)(void);
    void (*record_variables)(const marey_line_t *line);
    size_t (*next_request)(char *request, size_t len);
    void (*answer_request)(bool is_error, const char *text, size_t len);
    bool (*needs_sampling)(void);
    uint32_t (*begin_sampling)(void);
    void (*end_sampling)(void);
    bool (*next_sample)(uint32_t thread, uint8_t *cause, uint64_t *duration_nanos);
    bool (*is_sample_due)(uint8_t cause);
    bool (*scope_exit_only)(uint64_t id, uint64_t ticks, uint64_t sequence, uint64_t forward_os_id);
    size_t (*possible_performance_events)(const char *names, size_t names_len, uint32_t *metrics,
                                          size_t len, marey_sink_t refusals, void *context);
    double (*operator_flops)(const char *operator_name, size_t operator_len, const char *args,
                             size_t args_len);
    void (*begin_process_exit)(void);
    void (*find_collectives)(bool is_on);
    void (*answer_collective)(bool is_error, const char *text, size_t len);
} marey_table_t;

/* ---- Finding the library --------------------------------------------------------------------- */

/* Tested while the library has not been searched for: never 0. */
MAREY_VAR_ const uint64_t marey_unsearched_ = 1;
/* The word that the event functions test: the above, or the library's. NULL without the library. */
MAREY_VAR_ const uint64_t *marey_live_ = &marey_unsearched_;
MAREY_VAR_ const marey_table_t *marey_table_ = NULL;
MAREY_VAR_ const char *marey_absence_ = "";

MAREY_FN_ bool marey_is_disabled_(void) {
    const char *value = getenv("MAREY_DISABLE");
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

/* Opens the loaded copy, else the one that MAREY_LIB names, else the one that the loader finds. */
MAREY_FN_ void *marey_open_(void) {
    void *library = dlopen("libmarey.so", RTLD_NOW | RTLD_NOLOAD);
    if (library != NULL) {
        return library;
    }
    const char *path = getenv("MAREY_LIB");
    return dlopen(path != NULL && path[0] != '\0' ? path : "libmarey.so", RTLD_NOW | RTLD_LOCAL);
}

MAREY_FN_ const marey_table_t *marey_find_(const char **absence) {
    if (marey_is_disabled_()) {
        *absence = "MAREY_DISABLE is set";
        return NULL;
    }
    void *library = marey_open_();
    void *symbol = library == NULL ? NULL : dlsym(library, "marey_table");
    if (symbol == NULL) {
        *absence = "libmarey.so was not found; set MAREY_LIB to its path";
        return NULL;
    }
    const marey_table_t *(*get)(void) = NULL;
    /* ISO C has no cast from an object pointer to a function pointer. */
    memcpy(&get, &symbol, sizeof get);
    const marey_table_t *table = get();
    if (table->abi_version != MAREY_ABI_VERSION || table->size < sizeof(marey_table_t)) {
        *absence = "libmarey.so and marey.h have different versions; install matching ones";
        return NULL;
    }
    return table;
}

/**
 * Returns the library's functions, or NULL without the library.
 *
 * The first call searches for the library: a libmarey.so that the process has loaded already, else
 * the file that MAREY_LIB names, else libmarey.so in the loader's search path. The result is final,
 * so a Python extension that calls marey before `import marey` needs MAREY_LIB.
 */
MAREY_FN_ const marey_table_t *marey_load(void) {
    if (__atomic_load_n(&marey_live_, __ATOMIC_ACQUIRE) == &marey_unsearched_) {
        /* Several threads may do this at once; they find and store the same. */
        const char *absence = "";
        const marey_table_t *table = marey_find_(&absence);
        __atomic_store_n(&marey_absence_, absence, __ATOMIC_RELAXED);
        __atomic_store_n(&marey_table_, table, __ATOMIC_RELEASE);
        const uint64_t *live = table == NULL ? NULL : table->live;
        __atomic_store_n(&marey_live_, live, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&marey_table_, __ATOMIC_RELAXED);
}

/* Returns the table while a session is alive, else NULL. */
MAREY_FN_ const marey_table_t *marey_live_table_(void) {
    const uint64_t *live = __atomic_load_n(&marey_live_, __ATOMIC_ACQUIRE);
    if (live == NULL || __builtin_expect(__atomic_load_n(live, __ATOMIC_RELAXED) == 0, 1)) {
        return NULL;
    }
    const marey_table_t *table = __atomic_load_n(&marey_table_, __ATOMIC_ACQUIRE);
    if (__builtin_expect(table != NULL, 1)) {
        return table;
    }
    table = marey_load();
    return table == NULL || __atomic_load_n(table->live, __ATOMIC_RELAXED) == 0 ? NULL : table;
}

MAREY_FN_ size_t marey_len_(const char *text) {
    return text == NULL ? 0 : strlen(text);
}

/* ---- Names ----------------------------------------------------------------------------------- */

/**
 * Returns the number of a name, for the calls below. The number is valid for the life of the
 * process: look it up once.
 *
 * `name` is UTF-8 and is copied. Returns 0 for NULL and without the library; 0 is accepted
 * everywhere and recorded as an empty name.
 */
MAREY_FN_ uint32_t marey_name(const char *name) {
    const marey_table_t *table = marey_load();
    return table == NULL ? 0 : table->intern(name, marey_len_(name));
}

/** The number of a string literal, stored in a static variable where the macro is used. */
#define MAREY_NAME(literal)                                                                \
    __extension__({                                                                        \
        static uint32_t marey_cached_ = 0;                                                   \
        uint32_t marey_number_ = __atomic_load_n(&marey_cached_, __ATOMIC_RELAXED);          \
        if (marey_number_ == 0) {                                                          \
            marey_number_ = marey_name("" literal);                                        \
            __atomic_store_n(&marey_cached_, marey_number_, __ATOMIC_RELAXED);               \
        }                                                                                  \
        marey_number_;                                                                     \
    })

/* ---- Scopes ---------------------------------------------------------------------------------- */

/**
 * Enters a scope of a given kind on this thread. Returns its id, which is unique in the process, or
 * 0 when nothing is recorded.
 */
MAREY_FN_ uint64_t marey_scope_enter_kind(uint32_t name, enum marey_kind kind) {
    const marey_table_t *table = marey_live_table_();
    return table == NULL ? 0 : table->scope_enter(name, (uint8_t)kind);
}

/** Enters a scope on this thread. Returns its id, or 0 when nothing is recorded. */
MAREY_FN_ uint64_t marey_scope_enter(uint32_t name) {
    return marey_scope_enter_kind(name, MAREY_KIND_SCOPE);
}

/**
 * Exits the innermost scope of this thread with that name and records its wall time in nanoseconds.
 * Returns the scope's id, or 0 if no scope with that name is open. While a session is alive, the
 * latter is counted in `losses.unmatched_exits`.
 */
MAREY_FN_ uint64_t marey_scope_exit(uint32_t name) {
    const marey_table_t *table = marey_live_table_();
    return table == NULL ? 0 : table->scope_exit(name);
}

/**
 * Enters a scope by a name that is not known beforehand. The look-up of the name costs several
 * times as much as the scope.
 */
MAREY_FN_ uint64_t marey_enter(const char *name) {
    const marey_table_t *table = marey_live_table_();
    if (table == NULL) {
        return 0;
    }
    return table->scope_enter(table->intern(name, marey_len_(name)), MAREY_KIND_SCOPE);
}

/** Exits the innermost scope of this thread, whatever its name. Returns its id, or 0. */
MAREY_FN_ uint64_t marey_exit(void) {
    return marey_scope_exit(0);
}

/* ---- States and steps ------------------------------------------------------------------------ */

/** Enters a state, a label below the scopes of this thread, until marey_state_exit. States nest. */
MAREY_FN_ void marey_state_enter(uint32_t name) {
    const marey_table_t *table = marey_live_table_();
    if (table != NULL) {
        table->state_enter(name);
    }
}

/** Exits the innermost state of this thread, so that the state around it applies again. Returns
 * false if there was none. */
MAREY_FN_ bool marey_state_exit(void) {
    const marey_table_t *table = marey_live_table_();
    return table != NULL && table->state_exit();
}

/** Opens a training step on this thread, unless one is open. */
MAREY_FN_ void marey_step_begin(void) {
    const marey_table_t *table = marey_live_table_();
    if (table != NULL) {
        table->step_begin();
    }
}

/** Closes the training step of this thread and opens the next. If scopes inside the step are open,
 * this happens when they close. */
MAREY_FN_ void marey_step_end(void) {
    const marey_table_t *table = marey_live_table_();
    if (table != NULL) {
        table->step_end();
    }
}

/* ---- Metrics --------------------------------------------------------------------------------- */

/*
 * A metric's value is added to the innermost scope of this thread, or to the root. Values of one
 * metric on one scope are summed, and readers sum them up into the outer scopes. A suffix of the
 * name changes that: "(exc)" is not summed into outer scopes, "(pty)" keeps the last value. A unit,
 * as in "wait (ns)", is part of the name and is not converted.
 *
 * Each function returns an enum marey_code: MAREY_OK, also when nothing is recorded;
 * MAREY_ERROR_METRIC if the scope has the metric with another type or length, in which case the
 * value is dropped; MAREY_ERROR_LIMIT if the table of names is full; MAREY_ERROR_ARGUMENT for NULL.
 */

MAREY_FN_ int marey_metric_(const char *name, enum marey_tag tag, const void *data, size_t len) {
    const marey_table_t *table = marey_live_table_();
    if (table == NULL) {
        return MAREY_OK;
    }
    if (name == NULL) {
        return MAREY_ERROR_ARGUMENT;
    }
    marey_metric_t value;
    value.metric = table->intern_metric(name, strlen(name));
    value.tag = (uint32_t)tag;
    value.data = data;
    value.len = len;
    if (value.metric == MAREY_NO_METRIC) {
        return MAREY_ERROR_LIMIT;
    }
    return table->add_metrics(&value, 1, NULL);
}

/** Adds an integer. Sums saturate at the limits of int64_t. */
MAREY_FN_ int marey_metric_i64(const char *name, int64_t value) {
    return marey_metric_(name, MAREY_INT, &value, 1);
}

/** Adds a floating-point number. */
MAREY_FN_ int marey_metric_f64(const char *name, double value) {
    return marey_metric_(name, MAREY_FLOAT, &value, 1);
}

/** Sets a text in UTF-8, replacing an earlier one. */
MAREY_FN_ int marey_metric_text(const char *name, const char *text) {
    return marey_metric_(name, MAREY_TEXT, text, marey_len_(text));
}

/** Adds `len` integers, element by element. */
MAREY_FN_ int marey_metric_i64s(const char *name, const int64_t *values, size_t len) {
    return marey_metric_(name, MAREY_INTS, values, len);
}

/** Adds `len` floating-point numbers, element by element. */
MAREY_FN_ int marey_metric_f64s(const char *name, const double *values, size_t len) {
    return marey_metric_(name, MAREY_FLOATS, values, len);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

/*
 * Calls on sessions take a lock and may write files: keep them out of hot paths. `error` may be
 * NULL; otherwise its code and message are set, after a success too. Sessions that are still alive
 * are finalized when the process exits.
 */

/** The options of a session. Zero is the default of every field. */
typedef struct marey_options {
    enum marey_context context;
    enum marey_format format;
    bool flush_phases;   /**< Write each phase to a file of its own as soon as it is closed. */
    bool quiet_if_empty; /**< Write no file if nothing was recorded. */
    bool is_ring;        /**< Keep only the last records; needs MAREY_RUN. */
} marey_options_t;

/* Reports that there is no library. */
MAREY_FN_ int marey_report_absence_(marey_error_t *error) {
    if (error != NULL) {
        error->code = MAREY_ABSENT;
        error->message[0] = '\0';
        strncat(error->message, __atomic_load_n(&marey_absence_, __ATOMIC_RELAXED),
                MAREY_ERROR_BYTES - 1);
    }
    return MAREY_ABSENT;
}

/**
 * Starts a session, which is active at once. `name` is the path of the profile without its
 * extension ("" and "-" mean standard output). `options` may be NULL.
 *
 * Returns the session's number, 0 or more. A live session with the same path is activated and
 * returned. Returns MAREY_NO_SESSION on failure: MAREY_ABSENT, MAREY_ERROR_ARGUMENT, or
 * MAREY_ERROR_LIMIT with 64 sessions alive.
 */
MAREY_FN_ int64_t marey_start(const char *name, const marey_options_t *options,
                                  marey_error_t *error) {
    const marey_table_t *table = marey_load();
    if (table == NULL) {
        marey_report_absence_(error);
        return MAREY_NO_SESSION;
    }
    marey_start_options_t start;
    memset(&start, 0, sizeof start);
    start.size = sizeof start;
    start.name = name;
    start.name_len = marey_len_(name);
    if (options != NULL) {
        start.context = (uint32_t)options->context;
        start.format = (uint32_t)options->format;
        start.flush_phases = options->flush_phases;
        start.quiet_if_empty = options->quiet_if_empty;
        start.is_ring = options->is_ring;
    }
    int64_t session = table->start(&start, error);
    return session < 0 ? MAREY_NO_SESSION : session;
}

/** Activates a session, or MAREY_ALL_SESSIONS. Returns an enum marey_code. */
MAREY_FN_ int marey_activate(int64_t session, marey_error_t *error) {
    const marey_table_t *table = marey_load();
    return table == NULL ? marey_report_absence_(error) : table->activate(session, error);
}

/**
 * Deactivates a session, or MAREY_ALL_SESSIONS. Scopes that are open at this time are not recorded
 * in the session unless it is active again when they end. Returns an enum marey_code.
 */
MAREY_FN_ int marey_deactivate(int64_t session, marey_error_t *error) {
    const marey_table_t *table = marey_load();
    return table == NULL ? marey_report_absence_(error) : table->deactivate(session, error);
}

/**
 * Ends a session, or MAREY_ALL_SESSIONS, and writes its files. Returns an enum marey_code:
 * MAREY_ERROR_IO if a file could not be written, in which case the session has ended too.
 */
MAREY_FN_ int marey_finalize(int64_t session, marey_error_t *error) {
    const marey_table_t *table = marey_load();
    return table == NULL ? marey_report_absence_(error)
                         : table->finalize(session, NULL, 0, NULL, NULL, error);
}

/**
 * Closes the session's phase and opens the next. Returns the number of the next phase, or -1 on
 * failure. Phases are numbered from 0. Once there are two, each is written to a file of its own,
 * `NAME.part_N`.
 */
MAREY_FN_ int64_t marey_advance_phase(int64_t session, marey_error_t *error) {
    const marey_table_t *table = marey_load();
    return table == NULL ? marey_report_absence_(error) : table->advance_phase(session, error);
}

/** Returns the number of scopes on this thread's stack that a session sees, -1 on failure. */
MAREY_FN_ int64_t marey_depth(int64_t session, marey_error_t *error) {
    const marey_table_t *table = marey_load();
    return table == NULL ? marey_report_absence_(error) : table->depth(session, error);
}

/** Writes the current state of every session to its file. Failures are counted in
 * `losses.checkpoints_failed`. */
MAREY_FN_ void marey_checkpoint(void) {
    const marey_table_t *table = marey_live_table_();
    if (table != NULL) {
        table->checkpoint();
    }
}

#ifdef __cplusplus
} /* extern "C" */

/* ---- C++ ------------------------------------------------------------------------------------- */

namespace marey {

/** A scope from here to the end of the block, also when an exception ends it. */
class Scope {
public:
    MAREY_FN_ explicit Scope(uint32_t name, marey_kind kind = MAREY_KIND_SCOPE) noexcept
        : name_(name), entered_(marey_scope_enter_kind(name, kind) != 0) {}

    /** Looks the name up on every entry; MAREY_SCOPE and MAREY_NAME look it up once. */
    MAREY_FN_ explicit Scope(const char *name) noexcept
        : Scope(marey_live_table_(), [name] { return marey_name(name); }) {}

    /** A scope in the library of this table, NULL for none. `name` returns its number. */
    template <class Name>
    __attribute__((always_inline)) Scope(const marey_table_t *table, const Name &name) noexcept {
        if (table != nullptr) {
            name_ = name();
            entered_ = table->scope_enter(name_, MAREY_KIND_SCOPE) != 0;
        }
    }

    /* A scope that was entered before any session began is not exited in a later one. */
    MAREY_FN_ __attribute__((always_inline)) ~Scope() {
        if (__builtin_expect(static_cast<long>(entered_), 0)) {
            marey_scope_exit(name_);
        }
    }

    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

private:
    uint32_t name_ = 0;
    bool entered_ = false;
};

/** A state from here to the end of the block. */
class State {
public:
    MAREY_FN_ explicit State(uint32_t name) noexcept
        : entered_(marey_live_table_() != nullptr) {
        marey_state_enter(name);
    }

    /** Looks the name up on every entry; MAREY_NAME looks it up once. */
    MAREY_FN_ explicit State(const char *name) noexcept
        : State(marey_live_table_() == nullptr ? uint32_t{0} : marey_name(name)) {}

    MAREY_FN_ ~State() {
        if (entered_) {
            marey_state_exit();
        }
    }

    State(const State &) = delete;
    State &operator=(const State &) = delete;

private:
    bool entered_;
};

} // namespace marey

#define MAREY_JOIN_EXPANDED_(a, b) a##b
#define MAREY_JOIN_(a, b) MAREY_JOIN_EXPANDED_(a, b)

/** A scope from here to the end of the block, named by a string literal. */
/* Not const: GCC would keep the object in memory. */
#define MAREY_SCOPE(literal)                                                                 \
    ::marey::Scope MAREY_JOIN_(marey_scope_, __LINE__)(                                      \
        ::marey_live_table_(), [] { return MAREY_NAME(literal); })

#endif /* __cplusplus */

#endif /* MAREY_H */
