/* A program whose machine has no marey, or has switched it off: it runs, and nothing is written. */
#include "marey.h"

#include <stdio.h>

int main(void) {
    const double reals[] = {1.0};
    marey_error_t error;
    const int64_t session = marey_start("absent", NULL, &error);
    printf("%d %d %s\n", (int)session, (int)error.code, error.message);
    for (int i = 0; i < 1000; ++i) {
        if (marey_scope_enter(MAREY_NAME("scope")) != 0 || marey_enter("scope") != 0) {
            return 1;
        }
        marey_state_enter(MAREY_NAME("state"));
        marey_step_begin();
        if (marey_metric_i64("m", 1) != MAREY_OK || marey_metric_f64s("v", reals, 1) != MAREY_OK) {
            return 2;
        }
        marey_step_end();
        if (marey_state_exit() || marey_exit() != 0) {
            return 3;
        }
    }
    marey_checkpoint();
    const bool told = marey_activate(session, NULL) == MAREY_ABSENT &&
                      marey_deactivate(session, NULL) == MAREY_ABSENT &&
                      marey_advance_phase(session, NULL) == MAREY_ABSENT &&
                      marey_depth(session, NULL) == MAREY_ABSENT &&
                      marey_finalize(MAREY_ALL_SESSIONS, NULL) == MAREY_ABSENT;
    return told && marey_load() == NULL ? 0 : 4;
}
