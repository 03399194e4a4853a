/* kcli.protocol.records._record_walk: `record_walk.h` and `record_filter.h` for Python. record_walk.py and
 * record_filter.py choose and describe them.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "record_filter.h"
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

static PyObject *refuse_filtered(enum filter_error error)
{
    PyErr_SetString(corrupt_record, error == FILTER_FEWER_RECORDS
                                        ? "a record batch holds fewer records than it declares"
                                        : "a record does not fit its batch");
    return NULL;
}

static PyObject *refuse_rest(void)
{
    PyErr_SetString(corrupt_record, "a record batch holds more than the records it declares");
    return NULL;
}

/* What index_keys and select_records have in common: data, position, count, base offset, map, limits, key form. */
struct filter_arguments {
    Py_buffer data;
    const uint8_t *position, *end;
    long long count, base_offset;
    PyObject *offsets, *limits, *digest;
    long long short_bytes;
};

static int parse_filter_arguments(PyObject *const *args, Py_ssize_t arg_count, Py_ssize_t limit_count,
                                  struct filter_arguments *parsed)
{
    Py_ssize_t position;

    if (arg_count != 7) {
        PyErr_Format(PyExc_TypeError, "7 arguments are needed, not %zd", arg_count);
        return -1;
    }
    position = PyLong_AsSsize_t(args[1]);
    parsed->count = PyLong_AsLongLong(args[2]);
    parsed->base_offset = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred())
        return -1;
    parsed->offsets = args[4];
    parsed->limits = args[5];
    if (!PyDict_Check(parsed->offsets) || !PyTuple_Check(parsed->limits) ||
        PyTuple_GET_SIZE(parsed->limits) != limit_count || !PyTuple_Check(args[6]) || PyTuple_GET_SIZE(args[6]) != 2) {
        PyErr_SetString(PyExc_TypeError, "a dict and two tuples are needed");
        return -1;
    }
    parsed->short_bytes = PyLong_AsLongLong(PyTuple_GET_ITEM(args[6], 0));
    parsed->digest = PyTuple_GET_ITEM(args[6], 1);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &parsed->data, PyBUF_SIMPLE) < 0)
        return -1;
    if (position < 0 || position > parsed->data.len) {
        PyErr_Format(PyExc_ValueError, "byte %zd of %zd", position, parsed->data.len);
        PyBuffer_Release(&parsed->data);
        return -1;
    }
    parsed->position = (const uint8_t *)parsed->data.buf + position;
    parsed->end = (const uint8_t *)parsed->data.buf + parsed->data.len;
    return 0;
}

/* The key as it stands in a map. */
static PyObject *stored_key(const struct filter_arguments *arguments, const struct filtered_record *record)
{
    PyObject *key = PyBytes_FromStringAndSize((const char *)record->key, (Py_ssize_t)record->key_length);
    PyObject *digest;

    if (key == NULL || record->key_length <= arguments->short_bytes)
        return key;
    digest = PyObject_CallOneArg(arguments->digest, key);
    Py_DECREF(key);
    if (digest != NULL && !PyBytes_Check(digest)) {
        Py_DECREF(digest);
        PyErr_SetString(PyExc_TypeError, "a digest must be bytes");
        return NULL;
    }
    return digest;
}

/* After so many records another thread that waits gets its turn: some tenths of a millisecond. */
#define YIELD_RECORDS 1024

static void maybe_yield(long long index)
{
    if (index % YIELD_RECORDS == YIELD_RECORDS - 1) {
        Py_BEGIN_ALLOW_THREADS
        Py_END_ALLOW_THREADS
    }
}

static int64_t offset_of(const struct filter_arguments *arguments, const struct filtered_record *record)
{
    return (int64_t)((uint64_t)arguments->base_offset + (uint64_t)record->offset_delta);
}

static PyObject *index_all(struct filter_arguments *arguments, long long first_offset, long long room,
                           long long entry_bytes)
{
    for (long long index = 0; index < arguments->count; index++) {
        struct filtered_record record;
        enum filter_error error = filter_key(arguments->position, arguments->end, &record);
        int64_t offset;
        PyObject *key, *number;
        int is_set;

        maybe_yield(index);
        if (error != FILTER_SOUND)
            return refuse_filtered(error);
        arguments->position = record.end;
        offset = offset_of(arguments, &record);
        if (record.key_length < 0 || offset < first_offset)
            continue;
        key = stored_key(arguments, &record);
        if (key == NULL)
            return NULL;
        is_set = PyDict_Contains(arguments->offsets, key);
        if (is_set == 0) {
            room -= entry_bytes + PyBytes_GET_SIZE(key);
            if (room < 0) {
                Py_DECREF(key);
                return PyLong_FromLong(-1);
            }
        }
        number = is_set < 0 ? NULL : PyLong_FromLongLong(offset);
        is_set = number == NULL ? -1 : PyDict_SetItem(arguments->offsets, key, number);
        Py_XDECREF(number);
        Py_DECREF(key);
        if (is_set < 0)
            return NULL;
    }
    if (arguments->position != arguments->end)
        return refuse_rest();
    return PyLong_FromLongLong(room);
}

static PyObject *py_index_keys(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t arg_count)
{
    struct filter_arguments arguments;
    long long limits[3];
    PyObject *room;

    if (parse_filter_arguments(args, arg_count, 3, &arguments) < 0)
        return NULL;
    for (int i = 0; i < 3; i++)
        limits[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(arguments.limits, i));
    room = PyErr_Occurred() ? NULL : index_all(&arguments, limits[0], limits[1], limits[2]);
    PyBuffer_Release(&arguments.data);
    return room;
}

struct selection {
    PyObject *runs;
    long long kept, superseded, keyless, tombstones, first_delta, max_delta;
    int has_tombstone;
    Py_ssize_t run_start, run_end; /* -1 without a run */
};

static int end_run(struct selection *selection)
{
    Py_ssize_t bounds[2] = {selection->run_start, selection->run_end};

    for (int i = 0; i < 2 && selection->run_end >= 0; i++) {
        PyObject *number = PyLong_FromSsize_t(bounds[i]);

        if (number == NULL || PyList_Append(selection->runs, number) < 0) {
            Py_XDECREF(number);
            return -1;
        }
        Py_DECREF(number);
    }
    return 0;
}

/* Returns 1 if a record stays, 0 if not, -1 with an exception. */
static int stays(const struct filter_arguments *arguments, const struct filtered_record *record,
                 struct selection *selection, int drop_tombstones)
{
    PyObject *key, *found;
    long long found_offset;

    if (record->key_length < 0) {
        selection->keyless++;
        return 0;
    }
    key = stored_key(arguments, record);
    if (key == NULL)
        return -1;
    found = PyDict_GetItemWithError(arguments->offsets, key);
    Py_DECREF(key);
    if (found == NULL && PyErr_Occurred())
        return -1;
    found_offset = found == NULL ? -1 : PyLong_AsLongLong(found);
    if (found_offset == -1 && PyErr_Occurred())
        return -1;
    if (offset_of(arguments, record) < found_offset) {
        selection->superseded++;
        return 0;
    }
    if (record->is_tombstone && drop_tombstones) {
        selection->tombstones++;
        return 0;
    }
    return 1;
}

static int select_all(struct filter_arguments *arguments, long long end_offset, int drop_tombstones,
                      struct selection *selection)
{
    const uint8_t *start = arguments->data.buf;

    for (long long index = 0; index < arguments->count; index++) {
        struct filtered_record record;
        Py_ssize_t at = arguments->position - start;
        enum filter_error error = filter_record(arguments->position, arguments->end, &record);

        maybe_yield(index);
        if (error != FILTER_SOUND) {
            refuse_filtered(error);
            return -1;
        }
        arguments->position = record.end;
        if (offset_of(arguments, &record) < end_offset) {
            int is_kept = stays(arguments, &record, selection, drop_tombstones);

            if (is_kept < 0)
                return -1;
            if (!is_kept)
                continue;
        }
        if (record.is_tombstone)
            selection->has_tombstone = 1;
        if (!selection->kept)
            selection->first_delta = selection->max_delta = record.timestamp_delta;
        else if (record.timestamp_delta > selection->max_delta)
            selection->max_delta = record.timestamp_delta;
        selection->kept++;
        if (selection->run_end != at) {
            if (end_run(selection) < 0)
                return -1;
            selection->run_start = at;
        }
        selection->run_end = record.end - start;
    }
    if (end_run(selection) < 0)
        return -1;
    if (arguments->position != arguments->end) {
        refuse_rest();
        return -1;
    }
    return 0;
}

static PyObject *py_select_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t arg_count)
{
    struct filter_arguments arguments;
    struct selection selection = {.run_start = -1, .run_end = -1};
    long long end_offset;
    int drop_tombstones, outcome = -1;

    if (parse_filter_arguments(args, arg_count, 2, &arguments) < 0)
        return NULL;
    end_offset = PyLong_AsLongLong(PyTuple_GET_ITEM(arguments.limits, 0));
    drop_tombstones = PyObject_IsTrue(PyTuple_GET_ITEM(arguments.limits, 1));
    selection.runs = PyErr_Occurred() ? NULL : PyList_New(0);
    if (selection.runs != NULL)
        outcome = select_all(&arguments, end_offset, drop_tombstones, &selection);
    PyBuffer_Release(&arguments.data);
    if (outcome < 0) {
        Py_XDECREF(selection.runs);
        return NULL;
    }
    return Py_BuildValue("NLLLLOLL", selection.runs, selection.kept, selection.superseded, selection.keyless,
                         selection.tombstones, selection.has_tombstone ? Py_True : Py_False, selection.first_delta,
                         selection.max_delta);
}

/* Writes the records of all runs, unless `at` is NULL; returns their size, -1 with an exception. */
static Py_ssize_t rebase_all(const Py_buffer *data, PyObject *runs, int64_t shift, const int64_t *same, uint8_t *at)
{
    const uint8_t *start = data->buf;
    Py_ssize_t size = 0;
    long long index = 0;

    for (Py_ssize_t slot = 0; slot + 1 < PyList_GET_SIZE(runs); slot += 2) {
        Py_ssize_t from = PyLong_AsSsize_t(PyList_GET_ITEM(runs, slot));
        Py_ssize_t to = PyLong_AsSsize_t(PyList_GET_ITEM(runs, slot + 1));
        const uint8_t *position;

        if (PyErr_Occurred())
            return -1;
        if (from < 0 || from > to || to > data->len) {
            PyErr_Format(PyExc_ValueError, "bytes %zd to %zd of %zd", from, to, data->len);
            return -1;
        }
        for (position = start + from; position < start + to;) {
            struct filtered_record record;
            enum filter_error error = filter_head(position, start + to, &record);
            int64_t delta;

            maybe_yield(index++);
            if (error != FILTER_SOUND) {
                refuse_filtered(error);
                return -1;
            }
            delta = same != NULL ? *same : (int64_t)((uint64_t)record.timestamp_delta + (uint64_t)shift);
            size += (Py_ssize_t)filter_rebased(at == NULL ? NULL : at + size, &record, delta);
            position = record.end;
        }
    }
    return size;
}

static PyObject *py_rebase_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t arg_count)
{
    Py_buffer data;
    PyObject *rebased = NULL;
    int64_t shift, same = 0;
    Py_ssize_t size;

    /* Bytes cannot change between the two passes. */
    if (arg_count != 4 || !PyBytes_Check(args[0]) || !PyList_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "bytes, a list, and two numbers are needed");
        return NULL;
    }
    shift = PyLong_AsLongLong(args[2]);
    if (args[3] != Py_None)
        same = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    size = rebase_all(&data, args[1], shift, args[3] == Py_None ? NULL : &same, NULL);
    if (size >= 0)
        rebased = PyBytes_FromStringAndSize(NULL, size);
    if (rebased != NULL)
        rebase_all(&data, args[1], shift, args[3] == Py_None ? NULL : &same, (uint8_t *)PyBytes_AS_STRING(rebased));
    PyBuffer_Release(&data);
    return rebased;
}

static PyMethodDef methods[] = {
    {"index_keys", (PyCFunction)(void (*)(void))py_index_keys, METH_FASTCALL, NULL},
    {"rebase_records", (PyCFunction)(void (*)(void))py_rebase_records, METH_FASTCALL, NULL},
    {"select_records", (PyCFunction)(void (*)(void))py_select_records, METH_FASTCALL, NULL},
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
