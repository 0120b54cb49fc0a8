#include "server/registration/selection.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

TAILQ_HEAD(selections, selection);

/* Those that are shared. The lock guards the list, and all selections' references. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct selections shared = TAILQ_HEAD_INITIALIZER(shared);

/* names_no_file tells whether the subset is none of those that read a file: a list. A name in quotes may hide behind an
 * escape, so none is there either. */
static bool names_no_file(const char *subset)
{
    return !strstr(subset, "list") && !strchr(subset, '\\');
}

bool selection_is_shared(const char *subset, const char *narrowed)
{
    return names_no_file(subset) && names_no_file(narrowed);
}

/* joined returns both texts as one, which the caller frees. In JSON a line's end is white space. So if two pairs become
 * the same text, they select the same samples. */
static char *joined(const char *subset, const char *narrowed)
{
    size_t size = strlen(subset) + strlen(narrowed) + 2;
    char *text = xmalloc(size);
    snprintf(text, size, "%s\n%s", subset, narrowed);
    return text;
}

struct selection *selection_create(struct dataset *dataset)
{
    struct selection *selection = xcalloc(1, sizeof *selection);
    selection->dataset = dataset_ref(dataset);
    selection->refs = 1;
    return selection;
}

static struct selection *find_locked(const struct dataset *dataset, const char *text)
{
    struct selection *selection;
    TAILQ_FOREACH(selection, &shared, link) {
        if (selection->dataset == dataset && strcmp(selection->text, text) == 0) {
            selection->refs++;
            return selection;
        }
    }
    return NULL;
}

struct selection *selection_find(const struct dataset *dataset, const char *subset, const char *narrowed)
{
    char *text = joined(subset, narrowed);
    pthread_mutex_lock(&lock);
    struct selection *found = find_locked(dataset, text);
    pthread_mutex_unlock(&lock);
    free(text);
    return found;
}

void selection_share(struct selection **selection, const char *subset, const char *narrowed)
{
    char *text = joined(subset, narrowed);
    pthread_mutex_lock(&lock);
    struct selection *faster = find_locked((*selection)->dataset, text);
    if (!faster) {
        (*selection)->text = text;
        TAILQ_INSERT_TAIL(&shared, *selection, link);
    }
    pthread_mutex_unlock(&lock);
    if (!faster)
        return;
    free(text);
    selection_unref(selection);
    *selection = faster;
}

void selection_unref(struct selection **selection)
{
    struct selection *gone = *selection;
    *selection = NULL;
    if (!gone)
        return;
    pthread_mutex_lock(&lock);
    bool last = --gone->refs == 0;
    if (last && gone->text)
        TAILQ_REMOVE(&shared, gone, link);
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    dataset_unref(&gone->dataset);
    view_result_clear(&gone->view);
    free(gone->places);
    free(gone->text);
    free(gone);
}
