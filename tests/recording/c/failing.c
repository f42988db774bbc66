/* Sessions whose files cannot be written: the error is told, and the others end well. */
#include "marey.h"

#include <stdio.h>

int main(void) {
    marey_error_t error;
    FILE *file = fopen("blocked", "w");
    if (file == NULL || fclose(file) != 0) {
        return 1;
    }
    marey_start("blocked/inside", NULL, NULL);
    marey_start("written", NULL, NULL);
    const int code = marey_finalize(MAREY_ALL_SESSIONS, &error);
    printf("%d %d %s\n", code, (int)error.code, error.message);
    /* Nobody finalizes this one. */
    return marey_start("blocked/again", NULL, NULL) < 0;
}
