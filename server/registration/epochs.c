#include "server/registration/epochs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/little_endian.h"
#include "common/random.h"

enum { WEIGHT_BYTES = 8, READ_AT_ONCE = 1 << 20 /* bytes between two looks whether the registration is wanted */ };

_Static_assert((int)WIRE_REPEAT == (int)MULTISET_REPEAT && (int)WIRE_WEIGHTS == (int)MULTISET_WEIGHTS &&
                   (int)WIRE_BALANCED == (int)MULTISET_BALANCED && WIRE_COPIES_MAX == MULTISET_COPIES_MAX,
               "the wire and the sampler count alike");

static int no_memory(struct error *err)
{
    return error_set(err, LARDER_ENOMEM, "no memory for the weights or classes of the samples: free memory");
}

/* read_some reads bytes of the file that came with the registration, and goes past them. */
static int read_some(struct registration *reg, uint8_t *to, size_t len, struct error *err)
{
    for (size_t done = 0; done < len;) {
        size_t part = len - done < READ_AT_ONCE ? len - done : READ_AT_ONCE;
        ssize_t got = pread(reg->asked.file_fd, to + done, part, (off_t)reg->asked.record_at);
        if (got < 0 && errno != EINTR)
            return error_set(err, LARDER_EIO, "the weights cannot be read: %s", strerror(errno));
        if (got == 0)
            return error_set(err, LARDER_EFORMAT,
                             "the file that came with the registration is too short for the "
                             "weights that it says it has");
        if (interrupt_is_set(&reg->unwanted))
            return error_set(err, LARDER_EGONE, "the registration is not wanted any more");
        done += got > 0 ? (size_t)got : 0;
        reg->asked.record_at += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* read_weights reads a weight for each sample of the dataset. The caller frees *out. Only memory may be read: anything
 * else may block for ever. */
static int read_weights(struct registration *reg, uint8_t **out, struct error *err)
{
    uint8_t head[4];
    uint32_t samples = dataset_count(reg->found.dataset);
    if (fcntl(reg->asked.file_fd, F_GET_SEALS) < 0)
        return error_set(err, LARDER_EINVAL, "the weights came in a file that is no memfd: it must be one");
    int rc = read_some(reg, head, sizeof head, err);
    if (!rc && get_u32(head) != samples)
        rc = error_set(err, LARDER_EINVAL,
                       "there are %u weights, and the dataset has %u samples: give one for each sample of the dataset, "
                       "in its order; of those outside of the subset none counts",
                       get_u32(head), samples);
    uint8_t *bytes = rc ? NULL : malloc((size_t)samples * WEIGHT_BYTES);
    if (!rc && !bytes)
        rc = no_memory(err);
    if (!rc)
        rc = read_some(reg, bytes, (size_t)samples * WEIGHT_BYTES, err);
    if (rc)
        free(bytes);
    else
        *out = bytes;
    return rc;
}

/* of_view takes the weights, or the labels, of the view's samples. */
static int of_view(struct registration *reg, struct multiset_spec *spec, double **weights, int32_t **labels,
                   struct error *err)
{
    const struct view_result *view = &reg->found.selection->view;
    uint8_t *bytes = NULL;
    int rc = spec->kind == MULTISET_WEIGHTS ? read_weights(reg, &bytes, err) : 0;
    *weights = bytes ? malloc(view->count * sizeof **weights) : NULL;
    *labels = spec->kind == MULTISET_BALANCED ? malloc(view->count * sizeof **labels) : NULL;
    if (!rc && ((bytes && !*weights) || (spec->kind == MULTISET_BALANCED && !*labels)))
        rc = no_memory(err);
    for (uint32_t i = 0; !rc && i < view->count; i++) {
        uint64_t bits = bytes ? get_u64(bytes + (size_t)view->indices[i] * WEIGHT_BYTES) : 0;
        if (bytes)
            memcpy(&(*weights)[i], &bits, sizeof bits);
        if (*labels)
            (*labels)[i] = dataset_label(reg->found.dataset, view->indices[i]);
    }
    free(bytes);
    spec->weights = *weights;
    spec->labels = *labels;
    return rc;
}

static int check(const struct registration *reg, struct error *err)
{
    const struct registration_asked *asked = &reg->asked;
    if (asked->shuffle != SHUFFLE_DEPENDENT)
        return error_set(err, LARDER_EINVAL,
                         "repeat, Weights and Balanced draw samples in the daemon's order: give shuffle \"dependent\"");
    return 0;
}

/* make_given makes what a guest gives, if that is not each of its samples once. */
static int make_given(struct registration *reg, struct error *err)
{
    const struct view_result *view = &reg->found.selection->view;
    const struct bag *draws = reg->guest.draws;
    if (bag_count(draws) == view->count)
        return 0;
    uint32_t *counts = malloc(view->count * sizeof *counts);
    if (!counts)
        return no_memory(err);
    for (uint32_t i = 0; i < view->count; i++)
        counts[i] = bag_times(draws, view->indices[i]);
    struct multiset_spec spec = {.kind = MULTISET_GIVEN,
                                 .ids = view->order,
                                 .counts = counts,
                                 .count = view->count,
                                 .together = reg->guest.together};
    int rc = multiset_create(&spec, &reg->found.multiset, err);
    free(counts);
    return rc;
}

int epochs_make(struct registration *reg, struct error *err)
{
    const struct registration_asked *asked = &reg->asked;
    if (reg->guest.number)
        return make_given(reg, err);
    struct registration_found *found = &reg->found;
    struct multiset_spec spec = {.kind = asked->epochs_are,
                                 .copies = asked->copies,
                                 .draws = asked->draws,
                                 .seed = asked->seed,
                                 .ids = found->selection->view.order,
                                 .count = found->selection->view.count};
    if (spec.kind == MULTISET_NONE)
        return 0;
    double *weights = NULL;
    int32_t *labels = NULL;
    int rc = check(reg, err);
    if (!rc)
        rc = of_view(reg, &spec, &weights, &labels, err);
    if (!rc)
        rc = multiset_create(&spec, &found->multiset, err);
    free(weights);
    free(labels);
    if (rc)
        return rc;
    found->view_fingerprint[0] ^= random_mix64(multiset_digest(found->multiset));
    found->view_fingerprint[1] ^= random_mix64(multiset_digest(found->multiset) + 1);
    return 0;
}
