// A module of pybind11 with scopes of marey.hpp, and profiles beside the sessions of Python.
#include <marey.hpp>

#include <pybind11/pybind11.h>
#include <string>

PYBIND11_MODULE(bound, module) {
    module.def("call", [](const std::string &name, const pybind11::object &callback) {
        RECORD_FUNCTION(name, marey::inputs(1));
        callback();
    });
    module.def("enable", [] {
        marey::enableProfiler(marey::ProfilerConfig(), {marey::ActivityType::CPU},
                              {marey::RecordScope::FUNCTION});
    });
    module.def("disable", [](const std::string &path) {
        const auto result = marey::disableProfiler();
        std::string error;
        result->save(path, &error);
        pybind11::list names;
        for (const marey::Event &event : result->events()) {
            names.append(event.name());
        }
        return pybind11::make_tuple(names, error);
    });
}
