#include "tests/unit/cache/store/store_fixture.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/source/origins.h"
#include "cache/store/store.h"
#include "common/random.h"

char root[TREE_NAME_MAX];
struct catalog *catalog;
struct dataset *source;

void path_below(char path[PATH_BYTES], const char *name)
{
    snprintf(path, PATH_BYTES, "%s/%s", root, name);
}

const struct store *store_in(const struct dataset *dataset)
{
    return store_of(dataset_source(dataset));
}

struct dataset *open_below(const char *name)
{
    char path[PATH_BYTES];
    struct error err;
    struct dataset *dataset;
    path_below(path, name);
    if (catalog_open(catalog, path, &dataset, &err))
        fail_msg("%s", err.text);
    return dataset;
}

/* Four hundred samples of 0 to 4,000 bytes in five classes; every hundredth has the content of the one before. */
static void make_source(void)
{
    char content[SAMPLE_BYTES_MAX + 1];
    struct rng rng;
    random_seed(&rng, FIXTURE_SEED);
    for (int i = 0; i < SAMPLES; i++) {
        size_t len = (size_t)random_below(&rng, sizeof content);
        for (size_t j = 0; i % 100 != 1 && j < len; j++)
            content[j] = (char)(' ' + random_below(&rng, 90));
        if (i % 100 != 1)
            content[len] = '\0';
        tree_file(content, "%s/t/class%d/%04d.jpg", root, i % 5, i);
    }
    tree_age(root);
}

int set_up(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    tree_new(root);
    make_source();
    path_below(path, "t");
    return catalog_create(NULL, &catalog, NULL) || catalog_open(catalog, path, &source, NULL);
}

int tear_down(void **state)
{
    (void)state;
    dataset_unref(&source);
    catalog_destroy(catalog);
    tree_remove(root);
    return 0;
}

struct store_options small_options(void)
{
    struct store_options options;
    store_options_default(&options);
    options.chunk_size = 16;
    options.segment_bytes = STORE_SEGMENT_MIN;
    options.threads = 3;
    return options;
}

int pack(const char *name, const struct store_options *options, store_progress_fn *progress, void *context,
         struct error *err)
{
    char path[PATH_BYTES];
    path_below(path, name);
    return store_pack(source, path, options, progress, context, err);
}

void pack_well(const char *name, const struct store_options *options)
{
    struct error err;
    char path[PATH_BYTES + NAME_MAX];
    if (pack(name, options, NULL, NULL, &err))
        fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/%s/" ORIGINS_NAME, root, name);
    unlink(path); /* whether it knows the source's files depends on how old these are */
}

unsigned list_folder(const char *name, char names[STORE_FILES_MAX][NAME_MAX + 1])
{
    char path[PATH_BYTES];
    unsigned count = 0;
    path_below(path, name);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, ORIGINS_NAME) != 0 && count < STORE_FILES_MAX)
            strcpy(names[count++], entry->d_name);
    }
    closedir(dir);
    return count;
}

size_t load(const char *folder, const char *name, char **bytes)
{
    char path[PATH_BYTES + NAME_MAX];
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    *bytes = malloc(1 << 20);
    assert_non_null(*bytes);
    size_t len = fread(*bytes, 1, 1 << 20, in);
    assert_in_range(len, 1, (1 << 20) - 1);
    fclose(in);
    return len;
}

void save(const char *folder, const char *name, const char *bytes, size_t len)
{
    char path[PATH_BYTES + NAME_MAX];
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

void assert_same_files(const char *a, const char *b)
{
    static char names[STORE_FILES_MAX][NAME_MAX + 1], others[STORE_FILES_MAX][NAME_MAX + 1];
    unsigned count = list_folder(a, names);
    assert_in_range(count, 4, STORE_FILES_MAX - 1);
    assert_int_equal(list_folder(b, others), count);
    for (unsigned i = 0; i < count; i++) {
        char *left, *right;
        size_t left_len = load(a, names[i], &left), right_len = load(b, names[i], &right);
        assert_int_equal(left_len, right_len);
        assert_memory_equal(left, right, left_len);
        free(left);
        free(right);
    }
}

void pretend_cut(const char *whole, const char *to)
{
    char path[PATH_BYTES], mark[64], *bytes;
    path_below(path, to);
    mkdir(path, 0755);
    struct dataset *dataset = open_below(whole);
    snprintf(mark, sizeof mark, "%016llx%016llx\n", (unsigned long long)store_in(dataset)->plan[1],
             (unsigned long long)store_in(dataset)->plan[0]);
    dataset_unref(&dataset);
    save(to, STORE_UNFINISHED_NAME, mark, strlen(mark));
    size_t len = load(whole, "segment-00001.larder", &bytes);
    save(to, "segment-00001.larder", bytes, len - 1);
    free(bytes);
    len = load(whole, "segment-00002.larder", &bytes);
    save(to, "segment-00002.larder", bytes, len);
    free(bytes);
}

int reseal(const char *name, uint32_t version, uint32_t form, struct packing packing)
{
    struct index index = {0};
    struct chunking chunking = {0};
    struct store store = {0};
    char *bytes;
    uint8_t *made;
    size_t len = load(name, STORE_INDEX_NAME, &bytes), made_len;
    assert_int_equal(store_index_parse((uint8_t *)bytes, len, &index, &chunking, &store, NULL), 0);
    free(bytes);
    if (form)
        store.forms[1] = (uint8_t)form;
    store.version = version;
    store.packing = packing;
    assert_int_equal(store_index_encode(&index, &chunking, &store, &made, &made_len), 0);
    index_free(&index);
    chunking_free(&chunking);
    store_free(&store);
    struct error err = {0};
    int code = store_index_parse(made, made_len, &index, &chunking, &store, &err);
    if (code) {
        assert_non_null(strstr(err.text, "damaged"));
    } else {
        save(name, STORE_INDEX_NAME, (char *)made, made_len);
        index_free(&index);
        chunking_free(&chunking);
        store_free(&store);
    }
    free(made);
    return code;
}

bool watch_progress(void *context, const struct store_progress *progress)
{
    struct watch *watch = context;
    assert_true(progress->samples_done >= watch->last.samples_done &&
                progress->samples_done <= progress->samples_total);
    assert_true(progress->bytes_done >= watch->last.bytes_done && progress->bytes_done <= progress->bytes_total);
    watch->last = *progress;
    watch->calls++;
    return true;
}
