/* plan_reads.c: reads in virtual time. A read goes to the storage class first, and then to the source for what is not
 * there. The source serves the files of the reads under way round-robin, so a read's time is in proportion to its
 * samples. Samples from the source are written behind to the class. */
#include <stdlib.h>

#include "common/check.h"
#include "server/plan/plan_priv.h"

#define CLEARLY 0.8 /* the source is read instead of the class when it takes less than this part of the time */

/* source_is_quicker says that the class is not worth a read, or being filled. */
static bool source_is_quicker(const struct plan_run *run, uint64_t bytes)
{
    return station_takes_s(&run->source, (double)bytes) < station_takes_s(&run->class, (double)bytes) * CLEARLY;
}

static void begin_source(struct plan_run *run, uint32_t number)
{
    plan_part_now(run)->source_bytes += run->reads.all[number].source_bytes;
    station_begin(&run->source, run->play.now_ns, number, run->reads.all[number].source_work);
}

void plan_read_start(struct plan_run *run)
{
    uint32_t number = run->reads.begun++;
    struct plan_read *read = &run->reads.all[number];
    uint64_t in_class = 0, all = 0;
    uint32_t n_in_class = 0;
    for (uint32_t i = 0; i < read->count; i++) {
        uint64_t bytes = run->plan->sizes[read->ids[i]];
        all += bytes;
        in_class += run->in_class[read->ids[i]] ? bytes : 0;
        n_in_class += run->in_class[read->ids[i]];
    }
    read->class_bytes = in_class && !source_is_quicker(run, in_class) ? in_class : 0;
    read->source_bytes = all - read->class_bytes;
    read->source_work = (read->count - (read->class_bytes ? n_in_class : 0)) * run->mean_bytes;
    plan_part_now(run)->class_bytes += read->class_bytes;
    run->reading++;
    if (read->class_bytes)
        station_begin(&run->class, run->play.now_ns, number, (double)read->class_bytes);
    else
        begin_source(run, number);
}

/* written_since returns the bytes that were written since something last began to wait. Reads that were begun together
 * end at one moment of virtual time. Their files come round-robin, so their last files come one after the other: at
 * least the time of one file lies between two ends. */
static double written_since(const struct plan_run *run)
{
    double since_s = plan_to_s(run->play.now_ns - run->behind.at_ns);
    double file_s = run->mean_bytes / plan_curve_at(run->source.curve, 1);
    return run->plan->class_writes_per_s * (since_s > file_s ? since_s : file_s);
}

/* Samples from the source are written behind to the class, as far as the waiting bytes have room. */
static void write_behind(struct plan_run *run, const struct plan_read *read)
{
    struct plan_behind *behind = &run->behind;
    if (run->class_room == 0 || source_is_quicker(run, read->source_bytes))
        return;
    behind->waiting -= written_since(run);
    behind->waiting = behind->waiting > 0 ? behind->waiting : 0;
    behind->at_ns = run->play.now_ns;
    for (uint32_t i = 0; i < read->count; i++) {
        uint64_t bytes = run->plan->sizes[read->ids[i]] + PLAN_RECORD_BYTES;
        if (run->in_class[read->ids[i]] || bytes > run->class_room)
            continue;
        if (behind->waiting + (double)bytes > behind->room)
            return;
        behind->waiting += (double)bytes;
        run->in_class[read->ids[i]] = true;
        run->class_room -= bytes;
    }
}

static void read_ended(struct plan_run *run, uint32_t number)
{
    struct plan_read *read = &run->reads.all[number];
    for (uint32_t i = 0; i < read->count; i++)
        play_push(&run->play,
                  (struct engine_event){
                      .type = ENGINE_LOADED,
                      .loaded = {.id = read->ids[i], .encoded = run, .bytes = run->plan->sizes[read->ids[i]]}});
    free(read->ids);
    read->ids = NULL;
    run->reading--;
}

void plan_class_read(struct plan_run *run, uint32_t number)
{
    if (run->reads.all[number].source_bytes)
        begin_source(run, number);
    else
        read_ended(run, number);
}

void plan_source_read(struct plan_run *run, uint32_t number)
{
    write_behind(run, &run->reads.all[number]);
    read_ended(run, number);
}

/* LOADs in a row with one number are one read. */
void plan_see_load(struct plan_run *run, const struct engine_action *action)
{
    struct plan_reads *reads = &run->reads;
    if (reads->count == reads->begun || reads->all[reads->count - 1].number != action->load.read) {
        reads->all = xgrow(reads->all, sizeof *reads->all, &reads->cap, reads->count + 1);
        reads->all[reads->count++] = (struct plan_read){.number = action->load.read};
    }
    struct plan_read *read = &reads->all[reads->count - 1];
    read->ids = xgrow(read->ids, sizeof *read->ids, &read->cap, read->count + 1);
    read->ids[read->count++] = action->load.id;
}
