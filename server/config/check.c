/* check.c: checks what needs more than the settings alone, the datasets' pipelines, and is `larderd check`. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "preprocess/pipeline.h"
#include "server/config/config_priv.h"

/* operator_place finds where the operator stands that a message of pipeline_parse_open ("pipeline[3] …") names. */
static struct config_mark operator_place(const struct config_dataset *dataset, const char *text)
{
    unsigned index;
    if (sscanf(text, "pipeline[%u]", &index) != 1 || index > dataset->n_pipeline_at)
        index = dataset->n_pipeline_at; /* the place of the list */
    return dataset->pipeline_at[index];
}

int config_check_pipelines(const struct config *config, struct error *err)
{
    for (uint32_t i = 0; i < config->n_datasets; i++) {
        const struct config_dataset *dataset = &config->datasets[i];
        struct pipeline *pipeline = NULL;
        struct error why;
        char key[160];
        if (!dataset->pipeline)
            continue;
        int rc = pipeline_parse_open(dataset->pipeline, strlen(dataset->pipeline), &pipeline, &why);
        pipeline_unref(&pipeline);
        snprintf(key, sizeof key, "datasets.%s", dataset->name);
        if (rc)
            return config_fail(err, rc, config->file, operator_place(dataset, why.text), key, "%s", why.text);
    }
    return 0;
}

static int usage(FILE *out, int status)
{
    fputs("usage: larder check FILE            check a configuration file, and do nothing else\n"
          "       larder check --show [FILE]   and write the effective settings, each with where it is from\n"
          "       larder check --example       write a file with every setting, its default and what it means\n"
          "exit status: 0 right, 1 wrong, 2 usage\n",
          out);
    return status;
}

/* warn_of_roots tells of roots that are not there now, and of a dataset that is below none. */
static void warn_of_roots(const struct config *config)
{
    char resolved[PATH_MAX];
    for (uint32_t i = 0; i < config->n_roots; i++) {
        const struct config_root *root = &config->roots[i];
        if (!realpath(root->path, resolved))
            fprintf(stderr, "%s:%u:%u: warning: roots[%u]: %s: %s; no dataset lies below it\n", config->file,
                    root->at.line, root->at.column, i, root->path, strerror(errno));
    }
    for (uint32_t i = 0; i < config->n_datasets; i++) {
        const struct config_dataset *dataset = &config->datasets[i];
        if (realpath(dataset->path, resolved) && !config_roots_allow(config, resolved))
            fprintf(stderr,
                    "%s:%u:%u: warning: datasets.%s: %s is below none of the folders of roots; jobs on it would "
                    "be refused: add its folder there\n",
                    config->file, dataset->at.line, dataset->at.column, dataset->name, resolved);
    }
}

/* warn_of_datasets tells of folders and stores that are not there now. They may come before the daemon starts, so the
 * configuration is right all the same. */
static void warn_of_datasets(const struct config *config)
{
    for (uint32_t i = 0; i < config->n_datasets; i++) {
        const struct config_dataset *dataset = &config->datasets[i];
        if (access(dataset->path, R_OK) != 0)
            fprintf(stderr, "%s:%u:%u: warning: datasets.%s: %s: %s; jobs on it would be refused\n", config->file,
                    dataset->at.line, dataset->at.column, dataset->name, dataset->path, strerror(errno));
    }
}

/* warn_of_bundle tells of certificates that are not there now. They may come before the daemon starts. */
static void warn_of_bundle(const struct config *config)
{
    const struct config_mark *at = &config->mark[SETTING_cluster_bundle];
    if (config->cluster_bundle[0] && access(config->cluster_bundle, R_OK) != 0)
        fprintf(stderr, "%s:%u:%u: warning: cluster.bundle: %s: %s\n", config->file, at->line, at->column,
                config->cluster_bundle, strerror(errno));
}

static int check(const char *path, bool show)
{
    struct config *config = NULL;
    struct error err;
    int rc = config_load(path, &config, &err);
    if (rc == 0)
        rc = config_check_pipelines(config, &err);
    if (rc == 0) {
        warn_of_datasets(config);
        warn_of_roots(config);
        warn_of_bundle(config);
    }
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    else if (show)
        config_dump(config, stdout);
    else
        printf("%s: right\n", path);
    config_destroy(config);
    return rc ? 1 : 0;
}

int config_check_main(int argc, char **argv)
{
    CHECK(argc >= 1);
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage(stdout, 0);
    if (argc == 2 && strcmp(argv[1], "--example") == 0) {
        config_example(stdout);
        return 0;
    }
    bool show = argc >= 2 && strcmp(argv[1], "--show") == 0;
    const char *path = show ? argv[2] : argv[1]; /* argv ends with NULL */
    if (argc != (show ? (path ? 3 : 2) : 2) || (path && path[0] == '-'))
        return usage(stderr, 2);
    int status = check(path, show);
    if (fflush(stdout) != 0) {
        perror("larder check: cannot write");
        return 1;
    }
    return status;
}
