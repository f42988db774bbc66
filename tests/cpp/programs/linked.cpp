// Calls two libraries that it is linked with, each with scopes of its own.
#include "report.hpp"

extern "C" void work_first();
extern "C" void work_second();

int main() {
    marey::ProfilerConfig config;
    config.report_input_shapes = true;
    marey::enableProfiler(config, {marey::ActivityType::CPU});
    work_first();
    work_second();
    { RECORD_USER_SCOPE("host"); }
    report(*marey::disableProfiler());
}
