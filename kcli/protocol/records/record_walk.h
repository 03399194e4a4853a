/* Walks the records of a batch of magic 2: the same checks as `walk_records_in_python` of record_walk.py, where
 * the format is described. Nothing here knows Python, so that a sanitizer can run it alone.
 *
 * The bytes come from anybody. `position` only grows, and no byte is read before it was compared with the end of
 * its record or of the data. Another thread may change the bytes meanwhile: each is read once.
 */

#ifndef KCLI_RECORD_WALK_H
#define KCLI_RECORD_WALK_H

#include <stddef.h>
#include <stdint.h>

enum walk_error { WALK_SOUND, WALK_FEWER_RECORDS, WALK_MORE_BYTES, WALK_BAD_LENGTH, WALK_BAD_FIELDS };

struct walk_result {
    enum walk_error error;
    int64_t index;  /* of the record that is wrong */
    int64_t length; /* what it says its length is, if that is wrong */
    int64_t min_timestamp;
    int64_t max_timestamp;
    int is_dense;
    int is_keyed;
};

/* Reads a zigzag number of at most `groups` groups of seven bits, `bits` of which count. Returns the position behind
 * it, or NULL if it is longer or the data ends inside. */
static inline const uint8_t *walk_number(const uint8_t *position, const uint8_t *end, int groups, int bits,
                                         int64_t *number)
{
    uint64_t folded = 0;
    uint8_t byte;
    int group = 0;

    do {
        if (group == groups || position >= end)
            return NULL;
        byte = *position++;
        folded |= (uint64_t)(byte & 0x7F) << (7 * group++);
    } while (byte & 0x80);
    /* The last group of a full-length number has more bits than the type: cut them, as Java does. */
    if (bits == 32)
        folded &= 0xFFFFFFFFu;
    *number = (int64_t)(folded >> 1) ^ -(int64_t)(folded & 1);
    return position;
}

#define WALK_VARINT(number)                                                   \
    do {                                                                      \
        position = walk_number(position, record_end, 5, 32, &(number));       \
        if (position == NULL)                                                 \
            return NULL;                                                      \
    } while (0)

/* Skips a length, at least `least`, and as many bytes; -1 is null. */
#define WALK_BYTES(length, least)                                             \
    do {                                                                      \
        WALK_VARINT(length);                                                  \
        if ((length) < (least) || (length) > record_end - position)           \
            return NULL;                                                      \
        if ((length) > 0)                                                     \
            position += (length);                                             \
    } while (0)

/* Reads the fields of one record; returns the position behind them, or NULL if they do not fit. */
static inline const uint8_t *walk_fields(const uint8_t *position, const uint8_t *record_end, int64_t *timestamp_delta,
                                         int64_t *offset_delta, int64_t *key_length)
{
    int64_t length, headers;

    if (position >= record_end)
        return NULL;
    position = walk_number(position + 1, record_end, 10, 64, timestamp_delta); /* behind the attributes */
    if (position == NULL)
        return NULL;
    WALK_VARINT(*offset_delta);
    WALK_BYTES(*key_length, -1);
    WALK_BYTES(length, -1);
    WALK_VARINT(headers);
    if (headers < 0 || headers > (record_end - position) / 2) /* each takes at least two bytes */
        return NULL;
    while (headers-- > 0) {
        WALK_BYTES(length, 0);
        WALK_BYTES(length, -1);
    }
    return position;
}

#undef WALK_VARINT
#undef WALK_BYTES

/* Checks that `count` records (at least one) fill the bytes from `position` to `end`. */
static inline struct walk_result walk_records(const uint8_t *position, const uint8_t *end, int64_t count,
                                              int64_t base_timestamp)
{
    struct walk_result result = {WALK_SOUND, 0, 0, INT64_MAX, INT64_MIN, 1, 1};

    for (int64_t index = 0; index < count; index++) {
        int64_t length, timestamp_delta, offset_delta, key_length, timestamp;
        const uint8_t *record_end;

        result.index = index;
        if (position >= end) {
            result.error = WALK_FEWER_RECORDS;
            return result;
        }
        position = walk_number(position, end, 5, 32, &length);
        if (position == NULL) {
            result.error = WALK_BAD_FIELDS;
            return result;
        }
        if (length < 0 || length > end - position) {
            result.error = WALK_BAD_LENGTH;
            result.length = length;
            return result;
        }
        record_end = position + length;
        position = walk_fields(position, record_end, &timestamp_delta, &offset_delta, &key_length);
        if (position != record_end) {
            result.error = WALK_BAD_FIELDS;
            return result;
        }
        /* A sum of timestamps wraps, as in Java. */
        timestamp = (int64_t)((uint64_t)base_timestamp + (uint64_t)timestamp_delta);
        if (timestamp < result.min_timestamp)
            result.min_timestamp = timestamp;
        if (timestamp > result.max_timestamp)
            result.max_timestamp = timestamp;
        if (offset_delta != index)
            result.is_dense = 0;
        if (key_length < 0)
            result.is_keyed = 0;
    }
    if (position != end)
        result.error = WALK_MORE_BYTES;
    return result;
}

#endif
