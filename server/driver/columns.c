/* columns.c: a client asks for a column of its job's dataset. A thread of the registrar makes it, for that takes long,
 * and the engine's thread sends it. */
#include <unistd.h>

#include "server/driver/driver_priv.h"
#include "server/registration/registrar.h"

void driver_column_asked(struct driver *driver, struct registration *asked)
{
    const struct driver_client *row = tables_client(&driver->tables, asked->client);
    if (!row || row->phase != CLIENT_SEATED) {
        registration_destroy(asked);
        return;
    }
    asked->found.dataset = dataset_ref(driver->tables.jobs[row->job].reg->found.dataset);
    if (registrar_submit(driver->registrar, asked) == 0)
        return;
    session_send_error(driver->session, asked->client, asked->seq, LARDER_ELIMIT, false,
                       "too many columns are being made at this moment: try again");
    registration_destroy(asked);
}

void driver_column_made(struct driver *driver, struct registration *made)
{
    struct dataset_column *column = &made->column.made;
    struct wire_message message = {
        .type = WIRE_COLUMN, .seq = made->seq, .column = {column->kind, column->width, column->count, column->bytes}};
    int fd = column->fd;
    column->fd = -1;
    const struct driver_client *row = tables_client(&driver->tables, made->client);
    struct error err = driver_placed(driver, made->code, made->err.text);
    if (made->code && row)
        session_send_error(driver->session, made->client, made->seq, err.code, false, err.text);
    else if (row)
        session_send_fd(driver->session, made->client, &message, fd);
    else if (fd >= 0)
        close(fd);
    registration_destroy(made);
}
