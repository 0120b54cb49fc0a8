/* test_tar_header.c: proves that each form of a header says what it should of its member, and that what is none is
 * told as what it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/source/tar_header.h"
#include "tests/unit/cache/source/tar_maker.h"

static struct tar_member member;

/* Reads what was made as one member, and empties it. */
static enum tar_fault read_made(struct tar_made *tar)
{
    enum tar_fault fault = TAR_SOUND;
    member.has_name = member.has_size = false;
    for (size_t at = 0; fault == TAR_SOUND && at < tar->len;) {
        const uint8_t *block = tar->bytes + at;
        fault = tar_header_read(&member, block);
        if (fault != TAR_SOUND || (member.type != TAR_MORE && member.type != TAR_GLOBAL))
            break;
        fault = tar_more_read(&member, tar_flag_of(block), block + TAR_BLOCK_BYTES);
        at += TAR_BLOCK_BYTES + (size_t)tar_body_blocks(member.body_bytes);
    }
    free(tar->bytes);
    *tar = (struct tar_made){0};
    return fault;
}

static void assert_file(struct tar_made *tar, const char *name, uint64_t size)
{
    assert_int_equal(read_made(tar), TAR_SOUND);
    assert_int_equal(member.type, TAR_FILE);
    assert_string_equal(member.name, name);
    assert_int_equal(member.name_len, strlen(name));
    assert_int_equal(member.size, size);
    assert_int_equal(member.body_bytes, size);
}

/* ustar: the three flags of files, a prefix, numbers between blanks, and a sum of signed bytes as old programs made. */
static void test_ustar(void **state)
{
    struct tar_made tar = {0};
    (void)state;
    tar_block(&tar, '0', "a.jpg", 5);
    assert_file(&tar, "a.jpg", 5);
    tar_block(&tar, '\0', "a.jpg", 5);
    assert_file(&tar, "a.jpg", 5);
    tar_block(&tar, '7', "a.jpg", 5);
    assert_file(&tar, "a.jpg", 5);
    tar_block(&tar, '0', "b.jpg", 0);
    memcpy(tar.bytes + 345, "some/folder", 11);
    memcpy(tar.bytes + 124, "   17 \0     ", 12);
    tar_sign(tar.bytes);
    assert_file(&tar, "some/folder/b.jpg", 15);
    char name[101];
    memset(name, 'n', sizeof name);
    name[100] = '\0';
    tar_block(&tar, '0', name, 1); /* without a zero byte behind it */
    assert_file(&tar, name, 1);
    tar_block(&tar, '0', "\xc3\xa4.jpg", 1);
    int sum = 0;
    memset(tar.bytes + 148, ' ', 8);
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += (int8_t)tar.bytes[i];
    snprintf((char *)tar.bytes + 148, 8, "%06o", (unsigned)sum);
    assert_file(&tar, "\xc3\xa4.jpg", 1);
}

/* Sizes beyond eight octal gigabytes come in binary. */
static void test_binary_size(void **state)
{
    struct tar_made tar = {0};
    (void)state;
    tar_block(&tar, '0', "big.jpg", 0);
    memcpy(tar.bytes + 124, "\x80\0\0\0\0\0\0\x12\x34\x56\x78\x9a", 12);
    tar_sign(tar.bytes);
    assert_file(&tar, "big.jpg", UINT64_C(0x123456789a));
    static const char *const wrong[] = {"\x80\0\0\1\0\0\0\0\0\0\0\0",
                                        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                        "\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "0000000001x ", "12 34      \0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tar_block(&tar, '0', "big.jpg", 0);
        memcpy(tar.bytes + 124, wrong[i], 12);
        tar_sign(tar.bytes);
        assert_int_equal(read_made(&tar), TAR_NUMBER);
    }
}

/* GNU's long names, pax's paths and sizes; of two that say a name the first holds, and a global header says none. */
static void test_more(void **state)
{
    struct tar_made tar = {0};
    char longer[301];
    (void)state;
    memset(longer, 'l', sizeof longer);
    longer[300] = '\0';
    tar_block(&tar, 'L', "././@LongLink", sizeof longer);
    tar_body(&tar, longer, sizeof longer);
    tar_block(&tar, '0', "llll", 3);
    assert_file(&tar, longer, 3);
    tar_block(&tar, 'K', "././@LongLink", sizeof longer);
    tar_body(&tar, longer, sizeof longer);
    tar_block(&tar, '0', "own.jpg", 3);
    assert_file(&tar, "own.jpg", 3);
    tar_pax(&tar, 'g', (const char *[]){"comment", "0123456789", NULL});
    tar_pax(&tar, 'x', (const char *[]){"mtime", "1.5", "path", "p\xc3\xa4th.jpg", "size", "70", NULL});
    tar_block(&tar, '0', "p?th.jpg", 3);
    assert_file(&tar, "p\xc3\xa4th.jpg", 70);
    tar_pax(&tar, 'x', (const char *[]){"path", "first.jpg", "path", "outer.jpg", NULL});
    tar_block(&tar, 'L', "././@LongLink", sizeof longer);
    tar_body(&tar, longer, sizeof longer);
    tar_block(&tar, '0', "llll", 3);
    assert_file(&tar, "outer.jpg", 3);
}

/* What says more and is not of its form. */
static void test_more_wrong(void **state)
{
    static const char *const bodies[] = {"9 path=a\n", "11 path=a\n",   "x path=a\n",           "5 a=\nq",
                                         "6 =ab\n",    "12 pathabcd\n", "999999999999 path=a\n"};
    struct tar_made tar = {0};
    char longer[TAR_NAME_MAX + 2];
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        tar_block(&tar, 'x', "pax", strlen(bodies[i]));
        tar_body(&tar, bodies[i], strlen(bodies[i]));
        tar_block(&tar, '0', "a.jpg", 1);
        enum tar_fault fault = read_made(&tar);
        if (i == 0) /* as long as it says */
            assert_int_equal(fault, TAR_SOUND);
        else
            assert_int_equal(fault, TAR_EXTENSION);
    }
    tar_pax(&tar, 'x', (const char *[]){"size", "1e3", NULL});
    assert_int_equal(read_made(&tar), TAR_NUMBER);
    tar_pax(&tar, 'g', (const char *[]){"path", "all.jpg", NULL});
    assert_int_equal(read_made(&tar), TAR_EXTENSION);
    memset(longer, 'l', sizeof longer);
    tar_block(&tar, 'L', "././@LongLink", sizeof longer);
    tar_body(&tar, longer, sizeof longer);
    assert_int_equal(read_made(&tar), TAR_LONG_NAME);
    tar_block(&tar, 'x', "pax", TAR_MORE_BYTES_MAX + 1);
    assert_int_equal(read_made(&tar), TAR_EXTENSION);
}

/* Folders, links and devices have no body, whatever their size says; what nobody knows has one. */
static void test_others(void **state)
{
    struct tar_made tar = {0};
    (void)state;
    for (const char *flag = "123456"; *flag; flag++) {
        tar_block(&tar, *flag, "a.jpg", 700);
        assert_int_equal(read_made(&tar), TAR_SOUND);
        assert_int_equal(member.type, TAR_OTHER);
        assert_int_equal(member.body_bytes, 0);
    }
    tar_block(&tar, 'V', "label", 700);
    assert_int_equal(read_made(&tar), TAR_SOUND);
    assert_int_equal(member.type, TAR_OTHER);
    assert_int_equal(member.body_bytes, 700);
    tar_block(&tar, '\0', "folder/", 700);
    assert_int_equal(read_made(&tar), TAR_SOUND);
    assert_int_equal(member.type, TAR_OTHER);
    assert_int_equal(member.body_bytes, 0);
    tar_zeros(&tar, 1);
    assert_int_equal(read_made(&tar), TAR_SOUND);
    assert_int_equal(member.type, TAR_END);
}

/* Damage, and what is meant so but not read. */
static void test_refused(void **state)
{
    static const struct {
        const char *begin;
        size_t len;
    } packed[] = {{"\x1f\x8b\x08", 3},
                  {"\x28\xb5\x2f\xfd", 4},
                  {"\xfd"
                   "7zXZ",
                   5},
                  {"BZh9", 4}};
    struct tar_made tar = {0};
    (void)state;
    tar_block(&tar, 'S', "holes.jpg", 9);
    assert_int_equal(read_made(&tar), TAR_SPARSE);
    tar_pax(&tar, 'x', (const char *[]){"GNU.sparse.major", "1", NULL});
    assert_int_equal(read_made(&tar), TAR_SPARSE);
    tar_block(&tar, 'M', "half.jpg", 9);
    assert_int_equal(read_made(&tar), TAR_VOLUMES);
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        tar_zeros(&tar, 1);
        memcpy(tar.bytes, packed[i].begin, packed[i].len);
        assert_int_equal(read_made(&tar), TAR_COMPRESSED);
        assert_true(tar_is_refused(TAR_COMPRESSED));
    }
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i += 1 + (i == 154)) { /* whichever byte is damaged; 155 says nothing */
        tar_block(&tar, '0', "a.jpg", 5);
        tar.bytes[i] ^= 4;
        enum tar_fault fault = read_made(&tar);
        assert_int_equal(fault, TAR_CHECKSUM);
        assert_false(tar_is_refused(fault));
    }
}

/* What stands in front of bytes that are read is held against name and size, as far as it can have them. */
static void test_fits(void **state)
{
    struct tar_made tar = {0};
    (void)state;
    tar_block(&tar, '0', "k/a.jpg", 5);
    assert_true(tar_header_fits(tar.bytes, "k/a.jpg", 5));
    assert_false(tar_header_fits(tar.bytes, "k/b.jpg", 5));
    assert_false(tar_header_fits(tar.bytes, "k/a.jpg", 6));
    assert_true(tar_header_fits(tar.bytes, "k/\xc3\xa4.jpg", 5)); /* a pax header has said it */
    tar.bytes[0] ^= 1;
    assert_false(tar_header_fits(tar.bytes, "k/a.jpg", 5));
    free(tar.bytes);
    tar = (struct tar_made){0};
    tar_block(&tar, '5', "k/a.jpg", 5);
    assert_false(tar_header_fits(tar.bytes, "k/a.jpg", 5));
    free(tar.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ustar),  cmocka_unit_test(test_binary_size),
                                       cmocka_unit_test(test_more),   cmocka_unit_test(test_more_wrong),
                                       cmocka_unit_test(test_others), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_fits)};
    return cmocka_run_group_tests_name("tar_header", tests, NULL, NULL);
}
