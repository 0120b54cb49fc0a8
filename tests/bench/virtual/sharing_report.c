#include <stdio.h>

#include "tests/bench/virtual/sharing_priv.h"

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static json_t *report_job(const struct sharing_bench *bench, const struct sharing_player *player)
{
    double chunk_epochs = (double)bench->n_chunks * player->desc->epochs;
    double sample_epochs = (double)bench->scenario->samples * player->desc->epochs;
    const struct sharing_tally *tally = &player->tally;
    return json_pack("{s:I, s:I, s:f, s:I, s:f, s:f, s:f, s:I, s:I, s:I}", "delivered", (json_int_t)tally->delivered,
                     "prepared", (json_int_t)tally->prepared, "prepared_per_delivered",
                     ratio((double)tally->prepared, (double)tally->delivered), "chunk_loads", (json_int_t)tally->reads,
                     "loads_per_chunk_per_epoch", (double)tally->reads / chunk_epochs, "bytes_read_per_byte",
                     (double)tally->loaded / sample_epochs, "position_spread",
                     ratio(player->spread.total, player->spread.counted), "missing", (json_int_t)tally->missing,
                     "duplicates", (json_int_t)tally->duplicates, "instance_repeats", (json_int_t)tally->repeats);
}

json_t *sharing_report(const struct sharing_bench *bench)
{
    const struct sharing_scenario *scenario = bench->scenario;
    struct sharing_tally sum = {0};
    double spread = 0, spreads = 0;
    uint32_t epochs = 1;
    json_t *jobs = json_array();
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        const struct sharing_player *player = &bench->players[i];
        sum.missing += player->tally.missing;
        sum.duplicates += player->tally.duplicates;
        sum.repeats += player->tally.repeats;
        spread += player->spread.total;
        spreads += player->spread.counted;
        if (player->desc->epochs > epochs)
            epochs = player->desc->epochs;
        json_array_append_new(jobs, report_job(bench, player));
    }
    return json_pack("{s:I, s:I, s:f, s:I, s:I, s:f, s:f, s:I, s:I, s:f, s:I, s:I, s:I, s:o}", "delivered",
                     (json_int_t)bench->delivered, "prepared", (json_int_t)bench->prepared, "prepared_per_delivered",
                     ratio((double)bench->prepared, (double)bench->delivered), "decoded", (json_int_t)bench->decoded,
                     "chunk_loads", (json_int_t)bench->reads, "loads_per_chunk_per_epoch",
                     (double)bench->reads / bench->n_chunks / epochs, "bytes_read_per_byte",
                     (double)bench->loaded / scenario->samples / epochs, "peak_prepared",
                     (json_int_t)(bench->peak_prepared / bench->slot_bytes), "peak_encoded",
                     (json_int_t)(bench->peak_encoded / SHARING_SAMPLE_BYTES), "position_spread",
                     ratio(spread, spreads), "missing", (json_int_t)sum.missing, "duplicates",
                     (json_int_t)sum.duplicates, "instance_repeats", (json_int_t)sum.repeats, "jobs", jobs);
}

int sharing_print(json_t *json)
{
    int status = json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0 ? 0 : 1;
    putchar('\n');
    json_decref(json);
    return status;
}
