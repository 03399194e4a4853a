/* kcli.protocol.records._record_walk: `record_walk.h` for Python. record_walk.py chooses and describes it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "record_walk.h"

/* From this size on other threads run meanwhile; a smaller walk takes less time than handing over. */
#define RELEASE_BYTES (64 * 1024)

static PyObject *corrupt_record;

static PyObject *refuse(const struct walk_result *result)
{
    switch (result->error) {
    case WALK_FEWER_RECORDS:
        PyErr_SetString(corrupt_record, "a record batch holds fewer records than it declares");
        break;
    case WALK_MORE_BYTES:
        PyErr_SetString(corrupt_record, "a record batch holds more than the records it declares");
        break;
    case WALK_BAD_LENGTH:
        PyErr_Format(corrupt_record, "record %lld: %lld bytes do not fit its batch", (long long)result->index,
                     (long long)result->length);
        break;
    default:
        PyErr_Format(corrupt_record, "record %lld: its fields do not fill its length", (long long)result->index);
    }
    return NULL;
}

static PyObject *py_walk_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t arg_count)
{
    Py_buffer data;
    Py_ssize_t position;
    long long count, base_timestamp;
    struct walk_result result;

    if (arg_count != 4)
        return PyErr_Format(PyExc_TypeError, "walk_records takes 4 arguments, not %zd", arg_count);
    position = PyLong_AsSsize_t(args[1]);
    if (position == -1 && PyErr_Occurred())
        return NULL;
    count = PyLong_AsLongLong(args[2]);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    base_timestamp = PyLong_AsLongLong(args[3]);
    if (base_timestamp == -1 && PyErr_Occurred())
        return NULL;
    if (PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    if (position < 0 || position > data.len) {
        PyErr_Format(PyExc_ValueError, "byte %zd of %zd", position, data.len);
        PyBuffer_Release(&data);
        return NULL;
    }
    if (count < 1) {
        PyBuffer_Release(&data);
        return PyErr_Format(corrupt_record, "a record batch cannot hold %lld records", count);
    }

    const uint8_t *start = data.buf, *end = start + data.len;
    if (data.len - position >= RELEASE_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        result = walk_records(start + position, end, count, base_timestamp);
        Py_END_ALLOW_THREADS
    } else {
        result = walk_records(start + position, end, count, base_timestamp);
    }
    PyBuffer_Release(&data);
    if (result.error != WALK_SOUND)
        return refuse(&result);
    return Py_BuildValue("LLOO", (long long)result.min_timestamp, (long long)result.max_timestamp,
                         result.is_dense ? Py_True : Py_False, result.is_keyed ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"walk_records", (PyCFunction)(void (*)(void))py_walk_records, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kcli.protocol.records._record_walk",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__record_walk(void)
{
    PyObject *corruption = PyImport_ImportModule("kcli.protocol.corruption");

    if (corruption == NULL)
        return NULL;
    corrupt_record = PyObject_GetAttrString(corruption, "CorruptRecord");
    Py_DECREF(corruption);
    if (corrupt_record == NULL)
        return NULL;
    return PyModule_Create(&definition);
}
