/* Finds the parts of a record of magic 2 that compaction looks at: the same checks as in record_filter.py, where they
 * are described. Nothing here knows Python, so that a sanitizer can run it alone.
 *
 * The bytes come from anybody. `position` only grows, and no byte is read before it was compared with the end of its
 * record or of the data.
 */

#ifndef KCLI_RECORD_FILTER_H
#define KCLI_RECORD_FILTER_H

#include <string.h>

#include "record_walk.h"

enum filter_error { FILTER_SOUND, FILTER_FEWER_RECORDS, FILTER_BAD_RECORD };

struct filtered_record {
    const uint8_t *attributes; /* the byte behind the length */
    const uint8_t *rest;       /* behind the timestamp delta */
    const uint8_t *end;
    int64_t timestamp_delta;
    int64_t offset_delta;
    const uint8_t *key;
    int64_t key_length; /* -1 for null */
    int is_tombstone;
};

/* Reads length, attributes and timestamp delta of the record at a position. */
static inline enum filter_error filter_head(const uint8_t *position, const uint8_t *end, struct filtered_record *record)
{
    int64_t length;

    if (position >= end)
        return FILTER_FEWER_RECORDS;
    position = walk_number(position, end, 5, 32, &length);
    if (position == NULL || length < 2 || length > end - position)
        return FILTER_BAD_RECORD;
    record->attributes = position;
    record->end = position + length;
    record->rest = walk_number(position + 1, record->end, 10, 64, &record->timestamp_delta);
    return record->rest == NULL ? FILTER_BAD_RECORD : FILTER_SOUND;
}

/* Reads the record at a position up to the length of its key, and the key. */
static inline enum filter_error filter_key(const uint8_t *position, const uint8_t *end, struct filtered_record *record)
{
    enum filter_error error = filter_head(position, end, record);

    if (error != FILTER_SOUND)
        return error;
    position = walk_number(record->rest, record->end, 5, 32, &record->offset_delta);
    if (position == NULL)
        return FILTER_BAD_RECORD;
    position = walk_number(position, record->end, 5, 32, &record->key_length);
    if (position == NULL || record->key_length < -1 || record->key_length > record->end - position)
        return FILTER_BAD_RECORD;
    record->key = position;
    return FILTER_SOUND;
}

/* Reads the record at a position up to the length of its value. */
static inline enum filter_error filter_record(const uint8_t *position, const uint8_t *end,
                                              struct filtered_record *record)
{
    enum filter_error error = filter_key(position, end, record);
    int64_t length;

    if (error != FILTER_SOUND)
        return error;
    position = record->key + (record->key_length > 0 ? record->key_length : 0);
    if (walk_number(position, record->end, 5, 32, &length) == NULL || length < -1)
        return FILTER_BAD_RECORD;
    record->is_tombstone = length == -1;
    return FILTER_SOUND;
}

static inline size_t filter_put_number(uint8_t *at, int64_t number)
{
    uint64_t folded = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    size_t size = 0;

    while (folded > 0x7F) {
        at[size++] = (uint8_t)(folded | 0x80);
        folded >>= 7;
    }
    at[size++] = (uint8_t)folded;
    return size;
}

/* Writes a record with another timestamp delta, unless `at` is NULL; returns its size. */
static inline size_t filter_rebased(uint8_t *at, const struct filtered_record *record, int64_t delta)
{
    uint8_t number[10], head[10];
    size_t rest = (size_t)(record->end - record->rest);
    size_t number_size = filter_put_number(number, delta);
    size_t head_size = filter_put_number(head, (int64_t)(1 + number_size + rest));

    if (at != NULL) {
        memcpy(at, head, head_size);
        at[head_size] = *record->attributes;
        memcpy(at + head_size + 1, number, number_size);
        memcpy(at + head_size + 1 + number_size, record->rest, rest);
    }
    return head_size + 1 + number_size + rest;
}

#endif
