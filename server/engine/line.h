/* line.h: doubly linked lists of numbered places.
 *
 * The elements lie in an array that may move. Each holds a struct link. A list holds the numbers of its first and its
 * last element. LINKS(array, member) names the links of an array's elements for one call. */
#ifndef LARDER_SERVER_ENGINE_LINE_H
#define LARDER_SERVER_ENGINE_LINE_H

#include <stddef.h>
#include <stdint.h>

#define ENGINE_NONE UINT32_MAX /* a number that names nothing */

struct link {
    uint32_t prev, next; /* ENGINE_NONE at the ends */
};

struct line {
    uint32_t head, tail; /* ENGINE_NONE when the list is empty */
};

struct links {
    struct link *first; /* the link of element 0 */
    size_t stride;      /* bytes from one element to the next */
};

#define LINE_EMPTY ((struct line){ENGINE_NONE, ENGINE_NONE})
#define LINKS(array, member) ((struct links){&(array)->member, sizeof *(array)})

/* line_link returns the link of an element. */
static inline struct link *line_link(struct links links, uint32_t index)
{
    return (struct link *)(void *)((char *)links.first + links.stride * index);
}

/* line_relink makes the neighbours of the element name it. The element's own link says where it is. */
static inline void line_relink(struct line *line, struct links links, uint32_t index)
{
    const struct link *link = line_link(links, index);
    if (link->prev != ENGINE_NONE)
        line_link(links, link->prev)->next = index;
    else
        line->head = index;
    if (link->next != ENGINE_NONE)
        line_link(links, link->next)->prev = index;
    else
        line->tail = index;
}

/* line_append puts an element that is in no list at the end. */
static inline void line_append(struct line *line, struct links links, uint32_t index)
{
    *line_link(links, index) = (struct link){.prev = line->tail, .next = ENGINE_NONE};
    line_relink(line, links, index);
}

/* line_prepend puts an element that is in no list at the beginning. */
static inline void line_prepend(struct line *line, struct links links, uint32_t index)
{
    *line_link(links, index) = (struct link){.prev = ENGINE_NONE, .next = line->head};
    line_relink(line, links, index);
}

/* line_remove takes the element out of the list. Its own link stays as it is, so a caller that goes along the list may
 * remove the element that it has come to. */
static inline void line_remove(struct line *line, struct links links, uint32_t index)
{
    const struct link *link = line_link(links, index);
    if (link->prev != ENGINE_NONE)
        line_link(links, link->prev)->next = link->next;
    else
        line->head = link->next;
    if (link->next != ENGINE_NONE)
        line_link(links, link->next)->prev = link->prev;
    else
        line->tail = link->prev;
}

#endif
