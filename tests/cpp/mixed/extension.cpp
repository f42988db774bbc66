/* A Python module in C++: its scopes and sessions are those of the process. */
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <marey/proton.hpp>

static proton::SessionManager &manager() { return proton::SessionManager::instance(); }

/* nest(name, function): calls the function in a scope of the manager inside one of marey.h. */
static PyObject *nest(PyObject *, PyObject *arguments) {
    const char *name = nullptr;
    PyObject *function = nullptr;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &function)) {
        return nullptr;
    }
    const marey::Scope outer(name);
    const proton::Scope scope("of the manager");
    manager().enterScope(scope);
    manager().addMetrics(scope.scopeId, {{"calls", int64_t{1}}});
    PyObject *result = PyObject_CallObject(function, nullptr);
    manager().exitScope(scope);
    return result;
}

static PyObject *start(PyObject *, PyObject *arguments) {
    const char *path = nullptr, *source = nullptr;
    if (!PyArg_ParseTuple(arguments, "ss", &path, &source)) {
        return nullptr;
    }
    const size_t session = manager().addSession(path, "", "", source, "tree");
    manager().activateSession(session);
    return PyLong_FromSize_t(session);
}

static PyObject *contexts(PyObject *, PyObject *) {
    proton::PythonContextSource frames;
    proton::ShadowContextSource scopes;
    std::string text;
    for (proton::ContextSource *source : {static_cast<proton::ContextSource *>(&frames), static_cast<proton::ContextSource *>(&scopes)}) {
        for (const proton::Context &context : source->getContexts()) {
            text += context.name + "\n";
        }
    }
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

static PyMethodDef methods[] = {{"nest", nest, METH_VARARGS, nullptr},
                                {"start", start, METH_VARARGS, nullptr},
                                {"contexts", contexts, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "mixed", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_mixed() { return PyModule_Create(&module); }
