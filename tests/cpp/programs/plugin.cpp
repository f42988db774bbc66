// A library with scopes of its own. NAME names them and its function, `work_NAME`. It may be closed.
#include <marey.hpp>

#define JOIN_(one, other) one##other
#define JOIN(one, other) JOIN_(one, other)
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

extern "C" void JOIN(work_, NAME)() {
    RECORD_FUNCTION("function of " TEXT(NAME), marey::inputs(std::vector<int>{1, 2}));
    RECORD_USER_SCOPE(std::string("scope of ") + TEXT(NAME));
}
