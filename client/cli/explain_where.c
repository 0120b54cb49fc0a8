/* explain_where.c: where a job's samples are prepared, if its ranks are at several nodes. Pure. */
#include <string.h>

#include "client/cli/explain_priv.h"

const json_t *explain_share(const json_t *status, const json_t *job)
{
    const char *name = json_string_value(json_object_get(job, "name"));
    const json_t *rows = cells_at(status, "cluster", "jobs", NULL), *row;
    size_t i;
    json_array_foreach((json_t *)rows, i, row) {
        const char *of = json_string_value(json_object_get(row, "name"));
        if (name && of && strcmp(name, of) == 0)
            return row;
    }
    return NULL;
}

/* say_spread says why homes give, or do not. */
static void say_spread(const json_t *job, const json_t *row, struct explanation *out)
{
    const char *spread = json_string_value(json_object_get(row, "spread"));
    bool homes = json_is_true(json_object_get(row, "homes"));
    double trainings = cells_field(row, "trainings");
    char name[CELL_BYTES], why[128];
    if (!spread)
        return; /* all of its ranks are here, or a daemon of an earlier release does not say */
    if (strcmp(spread, "auto") != 0)
        SAY(why, "because cluster.spread is %s", spread);
    else if (trainings > 1 && homes)
        SAY(why, "because %.0f trainings of the cluster want the same", trainings);
    else if (trainings > 1)
        SAY(why, "because sending them costs more than %.0f trainings save by sharing", trainings);
    else
        SAY(why, "%s no other training of the cluster wants the same", homes ? "until its epoch ends:" : "because");
    SAY(out->where, "The samples of %s %s, %s", explain_name(job, name),
        homes ? "come from their chunks' homes" : "are prepared at its ranks' own nodes", why);
}

/* say_home says it of a job whose nodes keep their parts of the dataset. */
static void say_home(const json_t *job, struct explanation *out)
{
    const json_t *mix = json_object_get(job, "mix");
    char name[CELL_BYTES];
    if (json_is_real(mix))
        SAY(out->where,
            "The samples of %s are prepared at its ranks' own nodes, because of deal=\"home\": %.3g %% of the chunks "
            "change nodes in an epoch",
            explain_name(job, name), 100 * json_real_value(mix));
}

void explain_where(const json_t *job, const json_t *share, struct explanation *out)
{
    say_spread(job, share, out);
    say_home(job, out);
}
