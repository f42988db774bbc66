/* A C++ program that embeds Python. */
#include <Python.h>

#include <marey.h>

int main() {
    Py_Initialize();
    marey_start("embedded", nullptr, nullptr);
    int failed = 0;
    {
        MAREY_SCOPE("in C++");
        failed = PyRun_SimpleString("import marey\n"
                                    "with marey.scope('in Python', {'items': 2}):\n"
                                    "    pass\n");
    }
    failed |= Py_FinalizeEx();
    {
        MAREY_SCOPE("after Python");
    }
    marey_error_t error;
    marey_finalize(MAREY_ALL_SESSIONS, &error);
    return failed;
}
