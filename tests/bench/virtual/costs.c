#include "tests/bench/virtual/costs.h"

#include <math.h>

#include "common/check.h"

uint64_t costs_ns(double s)
{
    return (uint64_t)llround(s * 1e9);
}

static uint64_t serve(uint64_t *free_ns, uint64_t now_ns, double s)
{
    *free_ns = (*free_ns > now_ns ? *free_ns : now_ns) + costs_ns(s);
    return *free_ns;
}

static double file_s(const struct costs *costs, uint32_t tier)
{
    return costs->tiers[tier].file_s + costs->encoded_bytes / costs->tiers[tier].bytes_s;
}

uint64_t costs_read(struct costs_machine *machine, uint64_t now_ns, double place)
{
    const struct costs *costs = machine->costs;
    uint32_t tier = 0;
    for (double end = costs->tiers[0].part; tier + 1 < costs->n_tiers && place >= end;)
        end += costs->tiers[++tier].part;
    double s = file_s(costs, tier);
    machine->reads++;
    machine->read_s += s;
    return serve(&machine->tier_free_ns[tier], now_ns, s);
}

uint64_t costs_work(struct costs_machine *machine, uint64_t now_ns, double core_s)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < machine->costs->cores; i++)
        first = machine->core_free_ns[i] < machine->core_free_ns[first] ? i : first;
    machine->cpu_s += core_s;
    return serve(&machine->core_free_ns[first], now_ns, core_s);
}

double costs_read_s(const struct costs *costs)
{
    double longest = 0;
    for (uint32_t i = 0; i < costs->n_tiers; i++)
        longest = fmax(longest, costs->tiers[i].part * file_s(costs, i));
    return longest;
}

json_t *costs_report(const struct costs_machine *machine)
{
    const uint64_t *hits = machine->hits;
    double delivered = 0;
    for (int i = 0; i < COSTS_HITS; i++)
        delivered += (double)hits[i];
    delivered = delivered > 0 ? delivered : 1;
    json_t *json = json_pack(
        "{s:f, s:f, s:f, s:I, s:f, s:I, s:I, s:f, s:{s:f, s:f, s:f, s:f}}", "makespan_s",
        (double)machine->makespan_ns / 1e9, "cpu_s", machine->cpu_s, "cpu_ms_per_delivered",
        1e3 * machine->cpu_s / delivered, "reads", (json_int_t)machine->reads, "read_s", machine->read_s, "decodes",
        (json_int_t)machine->decodes, "forms", (json_int_t)machine->forms, "instances", machine->instances, "hits",
        "prepared", (double)hits[COSTS_PREPARED] / delivered, "decoded", (double)hits[COSTS_DECODED] / delivered,
        "encoded", (double)hits[COSTS_ENCODED] / delivered, "read", (double)hits[COSTS_READ] / delivered);
    CHECK(json);
    return json;
}
