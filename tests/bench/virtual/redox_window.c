/* redox_window.c: what a node gets from another one's virtual chunks: algorithms 4 to 6 of Redox.
 *
 * Every node knows every node's order. So with the file that is asked for a home sends others that the node will ask it
 * for, if they lie in memory: sending ahead never reads. A node has one slot for each slot of the home, too. So of two
 * requests for one slot, the later one conflicts until the earlier one is over. */
#include <string.h>

#include "common/check.h"
#include "tests/bench/virtual/redox_priv.h"

static void forget(struct redox_node *node, struct redox_pair *pair, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        if (pair->window[k] != REDOX_NONE)
            node->in_windows[pair->window[k]]--;
        pair->window[k] = REDOX_NONE;
    }
}

static void remember(struct redox_node *node, struct redox_pair *pair, uint32_t k, uint32_t slot)
{
    if (pair->window[k] != REDOX_NONE)
        node->in_windows[pair->window[k]]--;
    pair->window[k] = slot;
    node->in_windows[slot]++;
}

/* What came before the request at hand is consumed, so it is forgotten: lines 5 to 19 of algorithm 5. */
static void shift(struct redox_node *node, struct redox_pair *pair, uint32_t window)
{
    uint32_t by = pair->asked ? pair->at - pair->asked_at : window;
    if (by > window)
        by = window;
    forget(node, pair, by);
    memmove(pair->window, pair->window + by, (window - by) * sizeof *pair->window);
    for (uint32_t k = window - by; k < window; k++)
        pair->window[k] = REDOX_NONE;
    pair->asked = true;
    pair->asked_at = pair->at;
}

/* send_ahead is lines 24 to 41 of algorithm 5, and algorithm 6 at the node. */
static void send_ahead(struct redox *redox, struct redox_node *node, struct redox_pair *pair)
{
    shift(node, pair, redox->settings.window);
    remember(node, pair, 0, pair->wants[pair->at]);
    for (uint32_t k = 1; k < redox->settings.window && pair->at + k < pair->count; k++) {
        uint32_t slot = pair->wants[pair->at + k];
        if (node->in_windows[slot]) /* it was sent before, or it conflicts */
            continue;
        if (node->n_ahead >= redox->settings.room)
            return;
        if (!redox_is_valid(redox, slot))
            continue;
        CHECK(node->ahead[slot] == REDOX_NONE);
        node->ahead[slot] = redox_take(redox, slot);
        node->n_ahead++;
        redox->held++;
        remember(node, pair, k, slot);
    }
}

uint32_t redox_read_remote(struct redox *redox, uint32_t number, uint32_t home)
{
    struct redox_node *node = &redox->nodes[number];
    struct redox_pair *pair = &node->pairs[home];
    uint32_t slot = pair->wants[pair->at], chunk = node->ahead[slot];
    redox->remote++;
    if (chunk != REDOX_NONE) {
        node->ahead[slot] = REDOX_NONE;
        node->n_ahead--;
        redox->held--;
    } else {
        redox->requests++;
        chunk = redox_read_local(redox, slot);
        if (redox->settings.window)
            send_ahead(redox, node, pair);
    }
    pair->at++;
    return chunk;
}
