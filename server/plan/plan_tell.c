/* plan_tell.c: what `larder plan` says: what it measured, a row for each setting, and in one paragraph what to set. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/config.h"
#include "server/plan/commands_priv.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { SIZE_TEXT = 24, LINE = 100 };

/* A size as the configuration reads it, rounded up so that nothing is short of room. */
static const char *size_text(uint64_t bytes, char buf[SIZE_TEXT])
{
    if (bytes >= 20 * GIB)
        snprintf(buf, SIZE_TEXT, "%lluGiB", (unsigned long long)((bytes + GIB - 1) / GIB));
    else
        snprintf(buf, SIZE_TEXT, "%lluMiB", (unsigned long long)((bytes + MIB - 1) / MIB));
    return buf;
}

/* ── the table ── */

static void tell_curve(const char *what, const struct plan_curve *curve)
{
    printf("%s", what);
    for (uint32_t i = 0; i < curve->count; i++)
        printf("%s%.1f", i ? " / " : " ", curve->at[i].per_s / 1e6);
    printf(" MB/s with");
    for (uint32_t i = 0; i < curve->count; i++)
        printf("%s%.0f", i ? " / " : " ", curve->at[i].at_once);
    printf(" at once\n");
}

static void tell_measured(const struct plan_told *told)
{
    const struct plan_case *plan = told->plan;
    const struct plan_measured *measured = told->measured;
    char slot[SIZE_TEXT] = "as much as its file";
    printf("%s: %u samples, %.1f MB, %.0f KB each\n", told->path, plan->samples, (double)plan->dataset_bytes / 1e6,
           (double)plan->dataset_bytes / plan->samples / 1e3);
    printf("measured in %.1f s on %u of its files", measured->took_s, measured->files);
    if (measured->unreadable || measured->unprepared)
        printf(" (bad: %u when read, %u times when prepared)", measured->unreadable, measured->unprepared);
    tell_curve(":\n  reads bring", &plan->source);
    if (plan->slot_bytes)
        snprintf(slot, sizeof slot, "%.0f KB", (double)plan->slot_bytes / 1e3);
    printf("  one worker prepares %.0f samples/s, %u together %.0f; a prepared sample takes %s\n",
           plan_curve_at(&plan->preparing, 1), plan->workers, plan_curve_at(&plan->preparing, plan->workers), slot);
    if (plan->forms.ratio > 0)
        printf("  a decoded form takes %.1f times its file, and a sample prepared from one %.0f %% of the time\n",
               plan->forms.ratio, 100 * plan->forms.of_form);
    if (told->storage)
        tell_curve("  reads of the class bring", &plan->class);
    else
        printf("  of an SSD %.0f MB/s are assumed; --storage FOLDER measures yours\n", plan->class.at[0].per_s / 1e6);
    printf("%u job%s, batch %u, %u epochs, ", plan->jobs, plan->jobs > 1 ? "s" : "", plan->batch, plan->epochs);
    if (plan->step_s > 0)
        printf("steps of %g ms", plan->step_s * 1e3);
    else
        printf("batches taken as fast as they come");
    if (plan->jobs > 1)
        printf(", %g of an epoch apart", plan->apart);
    if (plan->played < plan->samples)
        printf("; played with %u samples, and as much less memory", plan->played);
    printf("\n\n");
}

static void tell_row(const struct plan_told *told, const struct plan_row *row)
{
    const struct plan_case *plan = told->plan;
    struct plan_rates first = plan_rates(plan, &row->first), later = plan_rates(plan, &row->later);
    char encoded[SIZE_TEXT], arena[SIZE_TEXT], class[SIZE_TEXT] = "-";
    if (row->setting.class_bytes)
        size_text(row->setting.class_bytes, class);
    printf("%9s %9s %9s %8.2f %8.2f %8.2f %8.2f %8.2f %8.3f", size_text(row->setting.encoded_bytes, encoded),
           size_text(row->setting.arena_bytes, arena), class, first.source, later.source, later.class, later.decoded,
           later.prepared, later.core_ms);
    if (plan->step_s > 0)
        printf(" %6.1f %%", 100 * later.stall);
    else
        printf(" %8.0f", later.samples_per_s);
    printf(" %8.1f\n", later.epoch_s);
}

/* ── the paragraph ── */

static const char *limit_text(enum plan_limit limit)
{
    return limit == PLAN_TRAINING  ? "the training steps themselves"
           : limit == PLAN_READING ? "reading"
                                   : "preparing (decoding and augmenting)";
}

/* put_paragraph writes a text with lines of LINE characters at the most. */
static void put_paragraph(const char *text)
{
    while (strlen(text) > LINE) {
        int at = LINE;
        while (at > 0 && text[at] != ' ')
            at--;
        printf("%.*s\n", at ? at : LINE, text);
        text += at ? at + 1 : LINE;
    }
    puts(text);
}

/* Writes a row's settings in words. */
static void name_setting(const struct plan_told *told, uint32_t number, char *buf, size_t cap)
{
    const struct plan_setting *setting = &told->rows[number].setting, *now = &told->machine->now;
    char encoded[SIZE_TEXT], arena[SIZE_TEXT], class[SIZE_TEXT], samples[SIZE_TEXT];
    size_text(setting->encoded_bytes, encoded);
    size_text(setting->encoded_bytes + setting->arena_bytes, samples);
    size_text(setting->arena_bytes, arena);
    size_text(setting->class_bytes, class);
    if (setting->class_bytes > now->class_bytes)
        snprintf(buf, cap, "a storage class of %s%s", class, told->storage ? "" : " on an SSD");
    else if (setting->moves)
        snprintf(buf, cap, "memory.samples %s and memory.arena %s", samples, arena);
    else if (setting->arena_bytes != now->arena_bytes)
        snprintf(buf, cap, "memory.arena %s and memory.encoded %s", arena, encoded);
    else
        snprintf(buf, cap, "memory.encoded %s", encoded);
}

/* A text that is written piece by piece. */
struct text {
    char text[2048];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int more = vsnprintf(out->text + out->len, sizeof out->text - out->len, fmt, args);
    va_end(args);
    size_t left = sizeof out->text - out->len - 1;
    out->len += more > 0 && (size_t)more < left ? (size_t)more : more > 0 ? left : 0;
}

/* tell_sparing names the settings that save no time, but the source or processors. */
static void tell_sparing(const struct plan_told *told, const struct plan_advice *advice, struct text *out)
{
    char name[128];
    if (advice->sparing != advice->row) {
        name_setting(told, advice->sparing, name, sizeof name);
        say(out, "To spare the source, %s would take its reads down to %.2f. ", name,
            plan_rates(told->plan, &told->rows[advice->sparing].later).source);
    }
    if (advice->thrifty != advice->row) {
        struct plan_rates then = plan_rates(told->plan, &told->rows[advice->thrifty].later);
        name_setting(told, advice->thrifty, name, sizeof name);
        say(out, "To spare processors, %s would take preparing a sample down to %.3f ms%s. ", name, then.core_ms,
            then.of_forms > 0 ? ", as memory would hold images decoded" : "");
    }
}

static void tell_advice(const struct plan_told *told, const struct plan_advice *advice)
{
    const struct plan_case *plan = told->plan;
    struct text out = {.len = 0};
    char name[128], wait[64] = "", forms[96] = "";
    struct plan_rates now = plan_rates(plan, &told->rows[0].later),
                      then = plan_rates(plan, &told->rows[advice->row].later);
    if (told->refused)
        say(&out, "Today's memory does not do: %s. ", told->refused);
    if (plan->step_s > 0)
        snprintf(wait, sizeof wait, ", of which jobs wait %.1f %%", 100 * now.stall);
    say(&out, "With %s, an epoch after the first takes %.1f s%s, and it is limited by %s. ",
        told->refused ? "the first row" : "what is set now", now.epoch_s, wait, limit_text(advice->now));
    if (then.of_forms > 0)
        snprintf(forms, sizeof forms, " (%.0f %% are made of images that memory holds decoded)", 100 * then.of_forms);
    name_setting(told, advice->row, name, sizeof name);
    if (advice->row)
        say(&out,
            "Set %s: then it takes %.1f s (%.0f %% less), reads %.2f of the dataset's bytes from the source instead of "
            "%.2f, prepares a sample in %.3f ms of a processor instead of %.3f%s, and its limit is %s. ",
            name, then.epoch_s, 100 * advice->saved, then.source, now.source, then.core_ms, now.core_ms, forms,
            limit_text(advice->then));
    else
        say(&out, "Leave it as it is: no setting here saves 5 %% of that. ");
    if (advice->then == PLAN_PREPARING)
        say(&out, "Only more cores, or a pipeline that does less, make that quicker. ");
    tell_sparing(told, advice, &out);
    while (out.len > 0 && out.text[out.len - 1] == ' ')
        out.text[--out.len] = '\0';
    put_paragraph(out.text);
}

static void tell_lines(const struct plan_told *told, uint32_t number)
{
    const struct plan_setting *setting = &told->rows[number].setting, *now = &told->machine->now;
    char text[SIZE_TEXT];
    if (setting->class_bytes > now->class_bytes) {
        printf("\nstorage:\n  - {path: ");
        config_text_print(told->storage ? told->storage : "/nvme/larder", stdout);
        printf(", size: %s}  # for photographs: form: planes\n", size_text(setting->class_bytes, text));
        return;
    }
    printf("\nmemory:\n");
    if (setting->moves)
        printf("  samples: %s\n", size_text(setting->encoded_bytes + setting->arena_bytes, text));
    if (setting->moves || setting->arena_bytes != now->arena_bytes)
        printf("  arena: %s\n", size_text(setting->arena_bytes, text));
    if (!setting->moves)
        printf("  encoded: %s\n", size_text(setting->encoded_bytes, text));
}

void plan_tell(const struct plan_told *told)
{
    struct plan_advice advice = plan_advise(told->plan, told->rows, told->count);
    tell_measured(told);
    printf("%9s %9s %9s %8s %8s %8s %8s %8s %8s %8s %8s\n", "encoded", "prepared", "class", "read in", "later",
           "of the", "decoded", "prepared", "CPU ms", told->plan->step_s > 0 ? "stall" : "all jobs", "an epoch");
    printf("%9s %9s %9s %8s %8s %8s %8s %8s %8s %8s %8s\n", "memory", "memory", "", "epoch 1", "epochs", "class",
           "/sample", "/sample", "/sample", told->plan->step_s > 0 ? "" : "samples/s", "seconds");
    for (uint32_t i = 0; i < told->count; i++)
        tell_row(told, &told->rows[i]);
    putchar('\n');
    tell_advice(told, &advice);
    if (advice.row)
        tell_lines(told, advice.row);
}

/* ── JSON ── */

static json_t *json_curve(const struct plan_curve *curve)
{
    json_t *points = json_array();
    for (uint32_t i = 0; i < curve->count; i++)
        json_array_append_new(points, json_pack("{s:f, s:f}", "at_once", curve->at[i].at_once, "mb_per_s",
                                                curve->at[i].per_s / 1e6));
    return points;
}

static json_t *json_part(const struct plan_case *plan, const struct plan_part *part)
{
    struct plan_rates rates = plan_rates(plan, part);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "delivered",
                     (json_int_t)part->delivered, "decoded", (json_int_t)part->decoded, "from_decoded",
                     (json_int_t)part->from_decoded, "prepared", (json_int_t)part->prepared, "source_bytes",
                     (json_int_t)part->source_bytes, "class_bytes", (json_int_t)part->class_bytes, "stall_s",
                     part->stall_s, "train_s", part->train_s, "stall", rates.stall, "source_per_byte", rates.source,
                     "class_per_byte", rates.class, "epoch_s", rates.epoch_s, "samples_per_s", rates.samples_per_s,
                     "decoded_per_sample", rates.decoded, "core_ms_per_sample", rates.core_ms);
}

static json_t *json_rows(const struct plan_told *told)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < told->count; i++) {
        const struct plan_row *row = &told->rows[i];
        json_array_append_new(
            rows, json_pack("{s:I, s:I, s:I, s:I, s:f, s:o, s:o}", "encoded_bytes",
                            (json_int_t)row->setting.encoded_bytes, "arena_bytes", (json_int_t)row->setting.arena_bytes,
                            "class_bytes", (json_int_t)row->setting.class_bytes, "runs", (json_int_t)row->runs,
                            "stall_sd_s", row->stall_sd_s, "first", json_part(told->plan, &row->first), "later",
                            json_part(told->plan, &row->later)));
    }
    return rows;
}

void plan_tell_json(const struct plan_told *told)
{
    static const char *const limits[] = {
        [PLAN_TRAINING] = "training", [PLAN_READING] = "reading", [PLAN_PREPARING] = "preparing"};
    const struct plan_case *plan = told->plan;
    const struct plan_measured *measured = told->measured;
    struct plan_advice advice = plan_advise(plan, told->rows, told->count);
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:f, s:o, s:f, s:f, s:f, s:f, s:I}, s:o, "
        "s:b, s:s?, s:o, s:{s:I, s:s, s:s, "
        "s:f, s:I, s:I}}",
        "dataset", told->path, "pipeline", told->pipeline, "samples", (json_int_t)plan->samples, "bytes",
        (json_int_t)plan->dataset_bytes, "played", (json_int_t)plan->played, "measured", "files",
        (json_int_t)measured->files, "unreadable", (json_int_t)measured->unreadable, "unprepared",
        (json_int_t)measured->unprepared, "seconds", measured->took_s, "source", json_curve(&plan->source),
        "prepared_per_s_one", plan_curve_at(&plan->preparing, 1), "prepared_per_s_all",
        plan_curve_at(&plan->preparing, plan->workers), "form_bytes_per_byte", plan->forms.ratio, "prepared_from_form",
        plan->forms.of_form, "slot_bytes", (json_int_t)plan->slot_bytes, "class", json_curve(&plan->class),
        "class_measured", told->storage != NULL, "refused", told->refused, "rows", json_rows(told), "advice", "row",
        (json_int_t)advice.row, "limit_now", limits[advice.now], "limit_then", limits[advice.then], "saved",
        advice.saved, "sparing_row", (json_int_t)advice.sparing, "thrifty_row", (json_int_t)advice.thrifty);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    puts(text ? text : "{}");
    free(text);
    json_decref(root);
}
