/* test_driver_chunks.c: proves that a folder which changes again and again costs the daemon no more than it did at
 * first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/engine/engine_priv.h"
#include "server/registration/chunk_key.h"
#include "tests/play/scene.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { FILES = 120, VERSIONS = 200, CHUNK = 8, OTHER_FILES = 20 };

static char root[TREE_NAME_MAX];
static struct catalog *catalog;
static struct scene *scene;

static int set_up(void **state)
{
    (void)state;
    tree_new(root);
    assert_int_equal(catalog_create(NULL, &catalog, NULL), 0);
    catalog_set_chunking(catalog, CHUNK, 1);
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 200 * 1024,
                                   .encoded_bytes = 4000, /* 40 samples */
                                   .inflight_loads = 64,
                                   .inflight_prepares = 4,
                                   .redirect_width = 4};
    scene = scene_new_with(config, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scene_free(scene);
    catalog_destroy(catalog);
    tree_remove(root);
    return 0;
}

static struct dataset *open_folder(const char *name)
{
    char path[TREE_NAME_MAX + 32];
    struct error err;
    struct dataset *dataset = NULL;
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (catalog_open(catalog, path, &dataset, &err))
        fail_msg("%s", err.text);
    return dataset;
}

/* Adds a job on the whole dataset, as the driver does. Gives its number. */
static uint32_t add_job(const char *name, const struct dataset *dataset)
{
    uint32_t count = dataset_count(dataset);
    struct idset *view;
    struct chunk_slot *places = xcalloc(count, sizeof *places);
    sample_id *ids = xcalloc(count, sizeof *ids);
    assert_int_equal(idset_create(&view), 0);
    for (uint32_t i = 0; i < count; i++)
        idset_add(view, dataset_id(dataset, i));
    idset_to_array(view, ids);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index;
        assert_true(dataset_index(dataset, ids[i], &index));
        places[i].chunk = dataset_chunk_of(dataset, index, &places[i].slot);
    }
    struct engine_job_desc desc = scene_job(scene, name);
    desc.sampled.view = view;
    desc.chunks.places = places;
    chunk_key(dataset, desc.chunks.key);
    desc.chunks.count = dataset_chunk_count(dataset);
    desc.chunks.samples = dataset_chunk_size(dataset);
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, 0);
    free(ids);
    free(places);
    idset_destroy(view);
    return scene->play.job;
}

static uint32_t chunk_of(sample_id id)
{
    return chunks_place(&scene->play.engine->chunks, id)->chunk;
}

/* One epoch of the job: each sample of the dataset once. */
static void run_epoch(uint32_t job, uint32_t epoch, const struct dataset *dataset)
{
    memset(scene->got[job], 0, sizeof scene->got[job]);
    scene->last[job] = false;
    scene_next(scene, job, epoch, 64);
    for (uint32_t i = 0; i < dataset_count(dataset); i++)
        assert_int_equal(scene->got[job][dataset_id(dataset, i)], 1);
}

/* What the engine knows of chunks hangs together. */
static void check_chunks(void)
{
    const struct engine *engine = scene->play.engine;
    uint32_t stock = 0, groups_stock = 0;
    for (sample_id id = 0; id < engine->env.samples.ids; id++) {
        const struct chunk_place *sample = chunks_place(&engine->chunks, id);
        uint32_t fiber = chunks_fiber_no(&engine->chunks, id), at = 0;
        if (sample->chunk == ENGINE_NONE) {
            assert_int_equal(fiber, ENGINE_NONE);
            continue;
        }
        const struct chunk *chunk = &engine->chunks.chunks[sample->chunk];
        const struct group *group = &engine->chunks.groups[chunk->group];
        assert_true(chunk->group < engine->chunks.n_groups && fiber < engine->chunks.n_fibers);
        while (at < group->n_chunks && chunks_at(&engine->chunks, group, at) != chunk)
            at++;
        assert_true(at < group->n_chunks && group->kept == chunk->kept);
        assert_int_equal(chunk->members[sample->slot], id);
        assert_in_range(fiber, group->first_fiber, group->first_fiber + (group->chunk_samples + 3) / 4 - 1);
        stock += encoded_sample(&engine->encoded, id)->encoded != ENGINE_NONE;
    }
    for (uint32_t i = 0; i < engine->chunks.n_groups; i++)
        groups_stock += engine->chunks.groups[i].stock;
    assert_int_equal(stock, groups_stock);
}

/* A job is always at work while a folder gets a file more 200 times, and its next version a job. Every job gets its
 * samples once an epoch, all samples have a place in a chunk all the time, and neither ranges nor chunks nor fibers
 * become more. A dataset that a job uses all the time keeps its places, and one that comes again its number. */
static void test_a_folder_that_changes(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++)
        tree_file("x", "%s/changes/class/%04d.jpg", root, i);
    for (int i = 0; i < OTHER_FILES; i++)
        tree_file("x", "%s/stays/class/%04d.jpg", root, i);
    struct dataset *stays = open_folder("stays"), *before = open_folder("changes");
    uint32_t steady = add_job("steady", stays), last = add_job("0", before), most = 0, epoch = 0;
    uint32_t place = chunk_of(dataset_id(stays, 0));
    run_epoch(last, 0, before);
    for (int version = 1; version <= VERSIONS; version++) {
        char name[16];
        tree_file("x", "%s/changes/class/n%04d.jpg", root, version);
        snprintf(name, sizeof name, "%d", version);
        struct dataset *dataset = open_folder("changes");
        assert_int_equal(dataset_count(dataset), FILES + version);
        uint32_t job = add_job(name, dataset), placed = 0;
        run_epoch(job, 0, dataset);
        scene_gone(scene, last);
        run_epoch(job, 1, dataset);
        if (version % 10 == 0)
            run_epoch(steady, epoch++, stays);
        check_chunks();
        for (uint32_t i = 0; i < dataset_count(dataset); i++)
            placed += chunk_of(dataset_id(dataset, i)) != ENGINE_NONE;
        assert_int_equal(placed, dataset_count(dataset));
        assert_int_equal(chunk_of(dataset_id(stays, 0)), place);
        most = scene->play.engine->chunks.n_chunks > most ? scene->play.engine->chunks.n_chunks : most;
        dataset_unref(&before);
        before = dataset;
        last = job;
    }
    const uint32_t ranges = 2 * 2 + CHUNK_RANGES_SPARE, chunks = (FILES + VERSIONS + CHUNK - 1) / CHUNK;
    print_message("%u chunks, %u groups, %u fibers of %zu ranges\n", most, scene->play.engine->chunks.n_groups,
                  scene->play.engine->chunks.n_fibers, scene->play.engine->chunks.n_ranges);
    assert_true(scene->play.engine->chunks.n_ranges <= ranges);
    assert_true(most <= 2 * ranges * chunks); /* gaps are of the lengths of earlier versions */
    assert_true(scene->play.engine->chunks.n_groups <= ranges * chunks &&
                scene->play.engine->chunks.n_fibers <= ranges * chunks * 2);
    uint64_t key[ENGINE_CHUNK_KEY];
    chunk_key(stays, key);
    assert_int_equal(chunks_find_range(&scene->play.engine->chunks, key)->base, 0);
    scene_gone(scene, last);
    scene_gone(scene, steady);
    dataset_unref(&before);
    dataset_unref(&stays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_folder_that_changes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
