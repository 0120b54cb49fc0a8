/* catalog_dump.c: writes what the catalog makes of each tree named on the command line, for catalog_parity.py:
 * "tree", then "class NAME" lines and "sample LABEL SIZE KEY" lines, or "refused CODE TEXT". Names are in
 * hexadecimal. */
#include <stdio.h>

#include "cache/catalog/catalog.h"
#include "common/log.h"

static void put_hex(const char *text)
{
    for (; *text; text++)
        printf("%02x", (unsigned char)*text);
    putchar('\n');
}

static void dump(struct catalog *catalog, const char *path)
{
    struct dataset *dataset;
    struct error err;
    puts("tree");
    int code = catalog_open(catalog, path, &dataset, &err);
    if (code) {
        printf("refused %s %s\n", larder_err_name(code), err.text);
        return;
    }
    for (uint32_t i = 0; i < dataset_classes(dataset); i++) {
        printf("class ");
        put_hex(dataset_class(dataset, i));
    }
    for (uint32_t i = 0; i < dataset_count(dataset); i++) {
        printf("sample %d %llu ", (int)dataset_label(dataset, i), (unsigned long long)dataset_size(dataset, i));
        put_hex(dataset_key(dataset, i));
    }
    dataset_unref(&dataset);
}

int main(int argc, char **argv)
{
    struct catalog *catalog;
    log_set_level(LOG_WARN);
    if (catalog_create(NULL, &catalog, NULL))
        return 1;
    for (int i = 1; i < argc; i++)
        dump(catalog, argv[i]);
    catalog_destroy(catalog);
    return 0;
}
