/* test_peer_wire.c: proves that values come back from a message as they went in, that each shorter or longer message
 * and another version are refused, and that nothing out of its bounds is encoded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/cluster/peer_wire.h"

static void test_next(void **state)
{
    (void)state;
    uint8_t buf[128];
    size_t len;
    struct error err;
    struct peer_message message = {.type = PEER_NEXT, .cluster = 1, .node = {2}, .boot = 3}, back;
    message.next = (struct peer_next){4, 5, 6, 5, 0, 200, 56, 5000, 7};
    assert_int_equal(peer_encode(&message, buf, sizeof buf, &len), 0);
    assert_memory_equal(buf, "LDRP\x01\0\x03\0\x01", 9);
    assert_int_equal(peer_decode(buf, len, &back, &err), 0);
    assert_true(back.type == PEER_NEXT && back.cluster == 1 && back.node[0] == 2 && back.boot == 3);
    assert_memory_equal(&back.next, &message.next, sizeof(uint64_t) * 4 + sizeof(uint16_t) * 3);
    assert_int_equal(back.next.dry_ms, 7);
    for (size_t shorter = 4; shorter < len; shorter++)
        assert_int_equal(peer_decode(buf, shorter, &back, &err), LARDER_EFORMAT);
    assert_int_equal(peer_decode(buf, len + 1, &back, &err), LARDER_EFORMAT);
    assert_int_equal(peer_encode(&message, buf, len - 1, &len), LARDER_ELIMIT);
    buf[4] = 2;
    assert_int_equal(peer_decode(buf, 81, &back, &err), LARDER_EVERSION);
    message.next.extra = 57;
    assert_int_equal(peer_encode(&message, buf, sizeof buf, &len), LARDER_ELIMIT);
}

static void test_batch(void **state)
{
    (void)state;
    uint8_t buf[128], entries[2 * PEER_ENTRY_BYTES], bads[PEER_BAD_BYTES];
    size_t len;
    peer_entry_put(entries, 0, &(struct peer_entry){1, 2, 3});
    peer_entry_put(entries, 1, &(struct peer_entry){4, 5, 6});
    peer_bad_put(bads, 0, &(struct peer_bad){7, BAD_CORRUPT});
    struct peer_message message = {.type = PEER_BATCH, .boot = 3}, back;
    message.batch = (struct peer_batch){8, 9, PEER_LAST, 2, 1, {entries, 0}, {bads, 0}};
    assert_int_equal(peer_encode(&message, buf, sizeof buf, &len), 0);
    assert_int_equal(peer_decode(buf, len, &back, NULL), 0);
    assert_int_equal(peer_entry_get(&back.batch, 1).check, 6);
    assert_int_equal(peer_bad_get(&back.batch, 0).index, 7);
    peer_entry_put(entries, 1, &(struct peer_entry){4, PEER_ANSWER_MAX, 6});
    assert_int_equal(peer_encode(&message, buf, sizeof buf, &len), LARDER_ELIMIT);
}

/* An ATTACH has its dataset's version at the end; where it is not known, as in those of a release before, the message
 * ends before it. */
static void test_attach(void **state)
{
    (void)state;
    uint8_t buf[512];
    size_t len, without;
    struct error err;
    struct peer_message message = {.type = PEER_ATTACH, .attach = {.weight = 1, .term = 2}}, back;
    assert_int_equal(peer_encode(&message, buf, sizeof buf, &without), 0);
    assert_int_equal(peer_decode(buf, without, &back, &err), 0);
    assert_false(dataset_version_is_known(&back.attach.version));
    message.attach.version = (struct dataset_version){{3, 4}, {5, 6}};
    assert_int_equal(peer_encode(&message, buf, sizeof buf, &len), 0);
    assert_int_equal(len, without + 32);
    for (size_t shorter = 4; shorter < len; shorter++)
        assert_int_equal(peer_decode(buf, shorter, &back, &err), shorter == without ? 0 : LARDER_EFORMAT);
    assert_int_equal(peer_decode(buf, len + 1, &back, &err), LARDER_EFORMAT);
    assert_int_equal(peer_decode(buf, len, &back, &err), 0);
    assert_memory_equal(&back.attach.version, &message.attach.version, sizeof back.attach.version);
    memset(buf + without, 0, 32);
    assert_int_equal(peer_decode(buf, len, &back, &err), LARDER_EFORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_next), cmocka_unit_test(test_batch),
                                       cmocka_unit_test(test_attach)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
