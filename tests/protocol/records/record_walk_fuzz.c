/* record_walk_fuzz ROUNDS SEED: walks over sound and mutated records, each in memory of exactly its size, so that a
 * sanitizer sees every read beside it. Prints how many were sound and how many were refused.
 *
 *   cc -g -O1 -fsanitize=address,undefined -Ikcli/protocol/records tests/protocol/records/record_walk_fuzz.c
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record_filter.h"
#include "record_walk.h"

static uint64_t state;

static uint64_t next(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static size_t put_number(uint8_t *at, int64_t number)
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

static size_t put_bytes(uint8_t *at, int64_t length)
{
    size_t size = put_number(at, length);

    for (int64_t i = 0; i < length; i++)
        at[size++] = (uint8_t)next(256);
    return size;
}

static size_t put_record(uint8_t *at, int64_t index)
{
    uint8_t body[2048];
    size_t size = 0, head;
    int64_t headers = next(4) ? 0 : (int64_t)next(4);

    body[size++] = 0;
    size += put_number(body + size, next(8) ? (int64_t)next(300) : (int64_t)next(UINT64_MAX));
    size += put_number(body + size, index);
    size += put_bytes(body + size, (int64_t)next(100) - 1);
    size += put_bytes(body + size, (int64_t)next(300) - 1);
    size += put_number(body + size, headers);
    while (headers-- > 0) {
        size += put_bytes(body + size, (int64_t)next(10));
        size += put_bytes(body + size, (int64_t)next(100) - 1);
    }
    head = put_number(at, (int64_t)size);
    memcpy(at + head, body, size);
    return head + size;
}

static size_t mutate(uint8_t *bytes, size_t size)
{
    for (uint64_t changes = next(4); changes > 0 && size > 0; changes--) {
        switch (next(4)) {
        case 0:
            bytes[next(size)] = (uint8_t)next(256);
            break;
        case 1:
            bytes[next(size)] |= 0x80;
            break;
        case 2:
            memset(bytes + next(size), 0xFF, 1);
            break;
        default:
            size = next(size + 1);
        }
    }
    return size;
}

/* Gives each sound record another timestamp, in memory of exactly the size that it needs. */
static void rewrite(const uint8_t *position, size_t size)
{
    const uint8_t *end = position + size;
    struct filtered_record record;

    while (filter_record(position, end, &record) == FILTER_SOUND) {
        int64_t delta = (int64_t)next(UINT64_MAX);
        uint8_t *rebased = malloc(filter_rebased(NULL, &record, delta));

        filter_rebased(rebased, &record, delta);
        free(rebased);
        position = record.end;
    }
}

int main(int argc, char **argv)
{
    static uint8_t made[32 * 2048];
    long sound = 0, refused = 0;

    if (argc != 3)
        return 2;
    state = strtoull(argv[2], NULL, 10) * 0x9E3779B97F4A7C15u + 1;
    for (long round = strtol(argv[1], NULL, 10); round > 0; round--) {
        int64_t count = 1 + (int64_t)next(30);
        size_t size = 0;
        uint8_t *exact;
        struct walk_result result;

        for (int64_t index = 0; index < count; index++)
            size += put_record(made + size, index);
        size = mutate(made, size);
        if (!next(10))
            count = (int64_t)next(INT32_MAX) + 1;
        exact = malloc(size ? size : 1);
        memcpy(exact, made, size);
        result = walk_records(exact, exact + size, count, (int64_t)next(UINT64_MAX));
        rewrite(exact, size);
        free(exact);
        if (result.error == WALK_SOUND)
            sound++;
        else
            refused++;
    }
    printf("%ld %ld\n", sound, refused);
    return 0;
}
