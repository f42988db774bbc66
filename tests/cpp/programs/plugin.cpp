// A library with scopes of its own; NAME names them. It may be closed.
#include <marey.hpp>

extern "C" void work() {
    RECORD_FUNCTION("function of " NAME, marey::inputs(std::vector<int>{1, 2}));
    RECORD_USER_SCOPE(std::string("scope of ") + NAME);
}
