/* Prints the size of the function table and the place of each entry, as the header has them. */
#include "marey.h"

#include <stdio.h>

#define PLACE(field) printf(#field " %zu\n", offsetof(marey_table_t, field))

int main(void) {
    const marey_table_t *table = marey_load();
    if (table == NULL || table->abi_version != MAREY_ABI_VERSION) {
        return 1;
    }
    printf("header %zu\nlibrary %zu\n", sizeof(marey_table_t), table->size);
    printf("error %zu\n", sizeof(marey_error_t));
    printf("metric %zu\n", sizeof(marey_metric_t));
    printf("options %zu\n", sizeof(marey_start_options_t));
    PLACE(size);
    PLACE(abi_version);
    PLACE(reserved);
    PLACE(live);
    PLACE(intern);
    PLACE(intern_metric);
    PLACE(scope_enter);
    PLACE(scope_exit);
    PLACE(operator_enter);
    PLACE(operator_exit);
    PLACE(state_enter);
    PLACE(state_exit);
    PLACE(step_begin);
    PLACE(step_end);
    PLACE(top_name);
    PLACE(add_metrics);
    PLACE(detached_enter);
    PLACE(detached_exit);
    PLACE(detached_add_metrics);
    PLACE(detached_release);
    PLACE(detached_id);
    PLACE(set_frame_provider);
    PLACE(frame_root);
    PLACE(frame_child);
    PLACE(start);
    PLACE(activate);
    PLACE(deactivate);
    PLACE(finalize);
    PLACE(advance_phase);
    PLACE(is_phase_complete);
    PLACE(clear);
    PLACE(get_data);
    PLACE(depth);
    PLACE(context);
    PLACE(set_quiet_if_empty);
    PLACE(checkpoint);
    PLACE(after_fork_in_parent);
    PLACE(name_text);
    PLACE(sessions);
    PLACE(defer_fork_restart);
    PLACE(run_dir);
    PLACE(active);
    PLACE(operator_exit_id);
    PLACE(detached_here);
    PLACE(detached_operator_enter);
    PLACE(count_losses);
    PLACE(gpu_start);
    PLACE(gpu_level);
    PLACE(gpu_probe);
    PLACE(gpu_note);
    PLACE(note_environment);
    PLACE(set_task_provider);
    PLACE(torch_operators);
    PLACE(performance_events);
    PLACE(torch_shapes);
    PLACE(gpu_pause);
    PLACE(torch_ids);
    PLACE(active_sessions);
    PLACE(note);
    PLACE(record_collectives);
    PLACE(setting);
    PLACE(set_setting);
    PLACE(record_samples);
    PLACE(set_settings_listener);
    PLACE(cpp_state);
    PLACE(scope_args);
    PLACE(scope_exit_autograd);
    PLACE(performance_counts);
    PLACE(device_events);
    PLACE(end_idle_threads);
    PLACE(session_scope);
    PLACE(context_names);
    PLACE(state_name);
    PLACE(scope_enter_timed);
    PLACE(scope_exit_timed);
    PLACE(ticks);
    PLACE(monotonic_nanos);
    PLACE(cpp_thread);
    PLACE(record_variables);
    PLACE(next_request);
    PLACE(answer_request);
    PLACE(needs_sampling);
    PLACE(begin_sampling);
    PLACE(end_sampling);
    PLACE(next_sample);
    PLACE(is_sample_due);
    PLACE(scope_exit_only);
    PLACE(possible_performance_events);
    PLACE(operator_flops);
    PLACE(begin_process_exit);
    PLACE(find_collectives);
    PLACE(answer_collective);
    return 0;
}
