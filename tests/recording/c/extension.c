/* An annotated extension module of Python, as any library might ship one. */
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "marey.h"

static PyObject *call(PyObject *module, PyObject *function) {
    (void)module;
    marey_scope_enter(MAREY_NAME("c_outer"));
    PyObject *result = PyObject_CallNoArgs(function);
    marey_scope_exit(MAREY_NAME("c_outer"));
    return result;
}

static PyObject *leaf(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    marey_scope_enter(MAREY_NAME("c_leaf"));
    marey_metric_i64("c_calls", 1);
    marey_scope_exit(MAREY_NAME("c_leaf"));
    Py_RETURN_NONE;
}

static PyObject *start(PyObject *module, PyObject *name) {
    (void)module;
    PyObject *bytes = PyUnicode_AsUTF8String(name);
    if (bytes == NULL) {
        return NULL;
    }
    const int64_t session = marey_start(PyBytes_AsString(bytes), NULL, NULL);
    Py_DECREF(bytes);
    return PyLong_FromLongLong(session);
}

static PyObject *finalize(PyObject *module, PyObject *session) {
    (void)module;
    return PyLong_FromLong(marey_finalize(PyLong_AsLongLong(session), NULL));
}

static PyMethodDef methods[] = {
    {"call", call, METH_O, "Calls a function inside a scope."},
    {"leaf", leaf, METH_NOARGS, "Enters and leaves a scope."},
    {"start", start, METH_O, "Starts a session."},
    {"finalize", finalize, METH_O, "Ends a session."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "annotated", NULL, 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_annotated(void);

PyMODINIT_FUNC PyInit_annotated(void) {
    return PyModule_Create(&definition);
}
