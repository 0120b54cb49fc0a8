"""The errors of Larder: one class for each code of common/larder_err.h, all of them LarderError; and its warnings."""


class BadSamplesWarning(UserWarning):
    """An epoch is over that left samples out, because they are bad: files that are gone or damaged."""


class LarderError(Exception):
    """Something went wrong; the text names the thing concerned and says what to do. `code` is the C name, "EINVAL"."""

    code = "E?"


class InvalidArgument(LarderError, ValueError):
    """An argument, setting or message is wrong."""

    code = "EINVAL"


class OutOfMemory(LarderError):
    """Memory, or a memory budget, does not suffice."""

    code = "ENOMEM"


class IOFailure(LarderError):
    """Reading or writing failed."""

    code = "EIO"


class NotFound(LarderError):
    """A file, folder, dataset or job does not exist."""

    code = "ENOENT"


class FormatError(LarderError):
    """Bytes are not what they claim to be."""

    code = "EFORMAT"


class QuotaExceeded(LarderError):
    """The job's quota, or what is left of the arena, does not suffice."""

    code = "EQUOTA"


class Busy(LarderError):
    """Somebody else has it: the socket, the job's name."""

    code = "EBUSY"


class NotPermitted(LarderError):
    """The daemon, or this process, may not."""

    code = "EPERM"


class DaemonGone(LarderError):
    """The daemon is not there, or went away."""

    code = "EGONE"
    lost = False  # whether it was there: a connection ended, and may be made again
    _absent = False  # whether nobody answers at its socket


class JobCancelled(LarderError):
    """Somebody has ended the job, with `larder cancel`. Its Loader gives nothing any more."""

    code = "ECANCELLED"


class VersionMismatch(LarderError):
    """The daemon speaks another version of the protocol."""

    code = "EVERSION"


class BadSample(LarderError):
    """A sample is bad and the job's policy is "error", or so many are that nothing is left."""

    code = "ESAMPLE"


class LimitReached(LarderError):
    """A stated limit was reached."""

    code = "ELIMIT"
    _passing = False  # whether it is of this process and moment: no descriptor is free


class Timeout(LarderError, TimeoutError):
    """A stated time passed. The loader stays usable."""

    code = "ETIMEOUT"


class EpochsOver(LarderError):
    """The job's last epoch is over."""

    code = "EEND"


class SourceChanged(LarderError):
    """A file is not the one that was indexed."""

    code = "ECHANGED"


# Indexed by -code: the numbers are part of the wire format.
_BY_NUMBER = (LarderError, InvalidArgument, OutOfMemory, IOFailure, NotFound, FormatError, QuotaExceeded, Busy,
              NotPermitted, DaemonGone, VersionMismatch, BadSample, LimitReached, Timeout, EpochsOver, SourceChanged)


def from_code(number, text):
    """The error for a code from the wire."""
    known = 0 < -number < len(_BY_NUMBER)
    return (_BY_NUMBER[-number] if known else LarderError)(text)


def without_frames(error):
    """The error, to be kept for later, and what it came of, without the frames that they came through: what is in those
    would live as long."""
    each = error
    while each is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
    return error
