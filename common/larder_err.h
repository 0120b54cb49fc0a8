/* larder_err.h: the error codes of Larder, shared by the daemon, the C library and the wire.
 *
 * Functions return 0 or one of these; a text that names the thing concerned and says what to do comes with it
 * (struct error inside, larder_last_error() in the C library). The numbers are part of the wire format: never
 * renumber. */
#ifndef LARDER_ERR_H
#define LARDER_ERR_H

/* The C library exports only what is marked LARDER_API. */
#ifndef LARDER_API
#define LARDER_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum larder_err {
    LARDER_OK = 0,
    LARDER_EINVAL = -1,    /* an argument, setting or message is wrong */
    LARDER_ENOMEM = -2,    /* memory, or a memory budget, does not suffice */
    LARDER_EIO = -3,       /* reading or writing failed */
    LARDER_ENOENT = -4,    /* a file, folder, dataset or job does not exist */
    LARDER_EFORMAT = -5,   /* a file's or message's bytes are not what they claim to be */
    LARDER_EQUOTA = -6,    /* the job's quota, or what is left of the arena, does not suffice */
    LARDER_EBUSY = -7,     /* somebody else has it: the socket, the job name, the rank */
    LARDER_EPERM = -8,     /* the peer, or this process, may not */
    LARDER_EGONE = -9,     /* the daemon or the peer has gone away */
    LARDER_EVERSION = -10, /* the peer speaks another version */
    LARDER_ESAMPLE = -11,  /* a sample is bad and the job's policy is `error` */
    LARDER_ELIMIT = -12,   /* a stated limit was reached */
    LARDER_ETIMEOUT = -13, /* a stated time passed */
    LARDER_EEND = -14,     /* the epoch, or the job, is over (not a failure) */
    LARDER_ECHANGED = -15, /* a file is not the one that was indexed */
    /* Not on the wire, where it is EGONE of a job, in an ERROR that answers nothing and is not fatal. */
    LARDER_ECANCELLED = -16, /* the job was cancelled with `larder cancel` */
};

/* larder_err_name returns "EINVAL" and so on; "E?" for an unknown code. Never NULL, never freed. */
LARDER_API const char *larder_err_name(int code);

#ifdef __cplusplus
}
#endif
#endif
