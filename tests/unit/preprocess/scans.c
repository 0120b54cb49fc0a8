#include "scans.h"

#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#define COMPONENTS_MAX 4
#define SCANS_MAX 38

/* A valid order of scans that complete all coefficients. */
struct script {
    int n_components, n_scans;
    jpeg_scan_info scans[SCANS_MAX];
    int bits[COMPONENTS_MAX][DCTSIZE2]; /* while it is made: the lowest of a coefficient that was sent; -1: none */
};

static int pick(struct rng *rng, int from, int to)
{
    return from + (int)random_below(rng, (uint64_t)(to - from + 1));
}

static bool add(struct script *script, jpeg_scan_info scan)
{
    if (script->n_scans == SCANS_MAX)
        return false;
    script->scans[script->n_scans++] = scan;
    for (int i = 0; i < scan.comps_in_scan; i++) {
        for (int k = scan.Ss; k <= scan.Se; k++)
            script->bits[scan.component_index[i]][k] = scan.Al;
    }
    return true;
}

/* One more bit of the DC coefficients of some components that have as many. */
static bool add_dc(struct script *script, struct rng *rng, int component)
{
    int had = script->bits[component][0];
    jpeg_scan_info scan = {.comps_in_scan = 1, .component_index = {component}, .Ah = had < 0 ? 0 : had};
    for (int i = component + 1; i < script->n_components && pick(rng, 0, 3) > 0; i++) {
        if (script->bits[i][0] == had)
            scan.component_index[scan.comps_in_scan++] = i;
    }
    scan.Al = had < 0 ? pick(rng, 0, 2) : had - 1;
    return add(script, scan);
}

static bool add_ac(struct script *script, struct rng *rng, int component, int first)
{
    const int *bits = script->bits[component];
    int last = first;
    while (last + 1 < DCTSIZE2 && bits[last + 1] == bits[first] && pick(rng, 0, 39) > 0)
        last++;
    int had = bits[first], low = had < 0 ? pick(rng, 0, 3) : had - 1;
    return add(script, (jpeg_scan_info){.comps_in_scan = 1,
                                        .component_index = {component},
                                        .Ss = first,
                                        .Se = last,
                                        .Ah = had < 0 ? 0 : had,
                                        .Al = low});
}

/* One more scan; false: all bits are sent, or there are too many scans. */
static bool add_any(struct script *script, struct rng *rng, bool *complete)
{
    int open[COMPONENTS_MAX * DCTSIZE2], n_open = 0;
    for (int i = 0; i < script->n_components; i++) {
        for (int k = 0; k < DCTSIZE2; k++) {
            int bits = script->bits[i][k];
            bool begins = k <= 1 || bits != script->bits[i][k - 1];
            if (bits != 0 && begins && (k == 0 || script->bits[i][0] >= 0))
                open[n_open++] = i * DCTSIZE2 + k;
        }
    }
    *complete = n_open == 0;
    if (n_open == 0)
        return false;
    int chosen = open[random_below(rng, (uint64_t)n_open)];
    return chosen % DCTSIZE2 == 0 ? add_dc(script, rng, chosen / DCTSIZE2)
                                  : add_ac(script, rng, chosen / DCTSIZE2, chosen % DCTSIZE2);
}

static void draw(struct script *script, struct rng *rng, int n_components)
{
    bool complete = false;
    while (!complete) {
        *script = (struct script){.n_components = n_components};
        memset(script->bits, -1, sizeof script->bits);
        while (add_any(script, rng, &complete))
            ;
    }
}

struct encoded scan_jpeg(const struct encoded *jpeg, unsigned interval, struct rng *rng)
{
    struct script script;
    struct jpeg_decompress_struct from;
    struct jpeg_compress_struct to;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long len = 0;
    from.err = to.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&from);
    jpeg_create_compress(&to);
    jpeg_mem_src(&from, jpeg->data, jpeg->len_bytes);
    jpeg_mem_dest(&to, &memory, &len);
    jpeg_read_header(&from, TRUE);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&from);
    jpeg_copy_critical_parameters(&from, &to);
    to.restart_interval = interval;
    draw(&script, rng, from.num_components);
    to.scan_info = script.scans;
    to.num_scans = script.n_scans;
    jpeg_write_coefficients(&to, coefficients);
    jpeg_finish_compress(&to);
    jpeg_destroy_compress(&to);
    jpeg_destroy_decompress(&from);
    return (struct encoded){memory, len};
}
