// Scopes, metrics and states of a C++ program. Writes scopes.hatchet:
// `marey view scopes.hatchet`.

#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include <marey.h>

// A scope for each call. MAREY_SCOPE looks its name up once.
static double solve(const std::vector<double> &values) {
    MAREY_SCOPE("solve");
    double sum = 0;
    for (const double value : values) {
        sum += std::sqrt(value);
    }
    marey_metric_i64("elements", static_cast<int64_t>(values.size()));
    return sum;
}

int main() {
    marey_error_t error;
    const int64_t session = marey_start("scopes", nullptr, &error);
    if (session == MAREY_NO_SESSION) {
        std::fprintf(stderr, "not profiled: %s\n", error.message);
    }
    double total = 0;
    for (int step = 0; step < 4; ++step) {
        MAREY_SCOPE("step");
        const marey::State state(step == 0 ? "warm-up" : "steady");
        const std::vector<double> values(10000, step);
        // Scopes of a new thread are below the scope that the main thread has open.
        std::thread worker([&] { solve(values); });
        total += solve(values);
        worker.join();
    }
    marey_metric_f64("total (pty)", total);
    if (marey_finalize(MAREY_ALL_SESSIONS, &error) > 0) {
        std::fprintf(stderr, "no profile: %s\n", error.message);
    }
}
