"""A Loader's job: which epoch it is in, what was taken of it, and the session in which the rest comes.

    registered → begun (iter) → … → let go (an error, another state, an earlier epoch), and registered anew

A job that has begun stays what it is when its connection ends: the next use connects again, presents what was taken,
and the epoch goes on. Whoever calls holds the Loader's lock.

Of several ranks, one that has begun an epoch may be alone in that, while others have still to take of the one before.
Until its first batch has come it presents what it took of the one before, which is `_kept` for that.
"""

import os
import threading
import warnings

from . import _agree, _options, _process, _record, _state, _watch, _wire
from ._history import Base, History
from ._link import Link
from ._session import draws_of
from .errors import (Busy, DaemonGone, FormatError, InvalidArgument, JobCancelled, LarderError, LimitReached,
                     SourceChanged, Timeout)

STATE_WAIT_S = 60  # for the ranks that have not taken what a state is to cover
_WITHOUT = "brings no state"  # the daemon's words to a rank, where the others go on from a state
_SAME = ("layout", "sample_bytes", "n_classes", "n_samples")


class Job:
    def __init__(self, asked, given, socket, timeout_s, reconnect_s, home_pid, schedule):
        self.asked = asked      # what REGISTER says, with the rank and the pipeline as of now
        self.schedule = schedule  # of pipelines
        self.given = given      # what the Loader was told of ranks and names
        self.socket = socket
        self.timeout_s = timeout_s
        self.reconnect_s = reconnect_s
        self.weight = asked.weight
        self.epoch = 0          # the next one to begin
        self.chosen = 0         # by set_epoch or a state, or because an error ended that epoch, until it begins
        self.lock = threading.RLock()
        self.link = Link(socket, timeout_s, reconnect_s)
        self._home_pid = home_pid
        self._forget()

    def _forget(self):
        self.history = None       # of the epoch that the loop is in, or that a state was loaded of
        self.info = None          # what the daemon said of the job last
        self.classes = []
        self.begun = False        # an epoch, as the rank that it is …
        self._began_as = None     # … of how many
        self.error = None         # that ended the job while the script did something else
        self.loaded = None       # the state whose epoch is the next to begin
        self.agreement = None    # with the ranks at other nodes
        self.anew = True         # no batch has come since it was registered, or since its epoch began
        self._kept = None
        self._named = b""         # by the daemon
        self._was_registered = False
        self._alone = False       # the watcher connects, and no script waits for it
        self._aside = False       # the session is of a job beside the one that the other ranks have begun
        self.returning = False    # a thread of the watcher connects it

    def forked(self):
        """In a child process, whose job is another one: what was taken is the parent's, and another thread held the
        lock. A state that was loaded, and whose epoch has not begun, is the child's too."""
        self.lock = threading.RLock()
        loaded = self.loaded
        self._forget()
        self.link.forked()
        if loaded is not None:
            self.load(loaded)

    @property
    def ordered(self):
        return self.asked.shuffle != _record.SHUFFLE_DEPENDENT

    @property
    def draws(self):
        """Samples of a whole epoch, of all ranks together."""
        return draws_of(self.asked, self.info.n_samples)

    def _history_of(self, epoch, base=Base()):
        return History(epoch, self.ordered, base, self.asked.sampler != _wire.ONCE)

    # ── registering ──

    def ranks(self):
        return (self.asked.rank, self.asked.world_size) if self.begun else self.given.now()

    def check_ranks(self):
        """Refuses to go on when this process has become another rank than the one that the job began as."""
        if self.given.still() != self._began_as:
            self._refuse_ranks()

    def _refuse_ranks(self):
        (rank, world_size), (now, of) = self._began_as, self.given.still()
        raise InvalidArgument(f"this Loader began as rank {rank} of {world_size}, and this process has become rank "
                              f"{now} of {of}: samples would come twice or not at all. "
                              "Begin iterating after torch.distributed is initialised, make another Loader, or give "
                              "rank= and world_size=")

    @property
    def is_running(self):
        """Whether there is a session of a job that has begun."""
        session = self.link.session
        return self.begun and session is not None and session.usable and not session.torn

    def open(self, beginning=False):
        """The session, whose job is of the ranks that hold now; of those it began with, once it has begun."""
        session = self.link.session
        usable = session is not None and session.usable and not session.torn
        if self.begun:
            if self.given.still() != self._began_as:
                self._refuse_ranks()
            if usable:
                return session
            self.link.let_go()
        else:
            rank, world_size = self.given.now()
            name = self.given.job_name(world_size, beginning).encode("utf-8", "surrogateescape")
            suffix = self.schedule.suffix(self.epoch)
            name = _options.name_with(name, suffix) if name and suffix else name
            pipeline = self.schedule.at(self.epoch)
            local_world_size, local_first = self.given.local(rank, world_size)
            if usable and not (beginning and self._aside) and (rank, world_size, name, pipeline) == \
                    (self.asked.rank, self.asked.world_size, self.asked.name, self.asked.pipeline):
                return session
            if session is not None:  # else there is nothing to give up, and a loss before the first epoch goes on
                self.let_go()
            self.asked = self.asked._replace(rank=rank, world_size=world_size, name=name, pipeline=pipeline,
                                             local_world_size=local_world_size, local_first=local_first)
        self.link.check_open()
        try:
            session = self._registered(beginning)
        except BaseException as error:
            held = isinstance(error, LimitReached) and self.link.holds_former()  # by zero-copy batches, until they go
            if self.begun and isinstance(error, LarderError) and not isinstance(error, Timeout) and not held and \
                    not (self._alone and isinstance(error, DaemonGone)):
                self.fail()
            elif self.begun and not held and self.asked.world_size > 1 and self.reconnect_s:
                _watch.come_back(self)  # the script may do something else before its next call
            raise
        self._came(session)
        return session

    def _registered(self, beginning):
        """A session of the job. A rank that comes when others go on from a state already may be about to load it: until
        it does, or begins without, it has a job of its own beside that one, which never begins."""
        self._aside = False
        try:
            return self.link.open(self._register, self.loaded is not None or self.begun)
        except InvalidArgument as error:
            if beginning or self.begun or self.loaded is not None or _WITHOUT not in str(error):
                raise
            self._aside = True
        return self.link.open(self._register, False)

    def _register(self, session):
        """Registers the job in a session, which is closed when that fails."""
        asked = self.asked
        if asked.world_size == 1:  # ranks are told by what all of them were given
            name = asked.name
            if name and os.getpid() != self._home_pid:
                name = _options.child_name(name)
            asked = asked._replace(weight=self.weight, name=name or self._named)
        elif self._aside:
            asked = asked._replace(rank=0, world_size=1, local_world_size=0, local_first=0, name=b"")
        else:
            asked = asked._replace(flags=asked.flags | _wire.HEARS_DONE)
        try:
            record = self._presented()
            session.register(asked, self.timeout_s, None if record is None else self._encoded(record))
            if self._aside:
                session.info = self._as_rank(session.info)
            self._check(session.info)
        except BaseException as error:
            session.close()
            if isinstance(error, Busy):
                self._check_busy()
            raise

    def _as_rank(self, info):
        """What the daemon said of a job of one rank, as it says it of the job of all."""
        asked = self.asked
        last = asked.flags & _wire.DROP_LAST
        share = (draws_of(asked, info.n_samples) + (0 if last else asked.world_size - 1)) // asked.world_size
        return info._replace(n_batches=(share + (0 if last else asked.batch_size - 1)) // asked.batch_size,
                             name=os.fsdecode(asked.name))

    def _check_busy(self):
        if not self.asked.name:
            self._named = b""  # somebody else has it now: the daemon makes another
        elif self.link.holds_former():
            raise LimitReached("zero-copy batches are held of this Loader's job as it was, and with them its name: "
                               "drop their views, or release() them, before it goes on")
        elif self.asked.world_size == 1 and self.asked.name in _process.names():
            raise Busy(f"the job \"{os.fsdecode(self.asked.name)}\" is that of another Loader of this process: close() "
                       "that one first, or choose another name, or none and get one")

    def _presented(self):
        """What the registration says was taken; None where it says nothing."""
        several = self.asked.world_size > 1
        history = self._kept or self.history
        latest = max((epoch for epoch, _ in self.link.done.values()), default=0)
        if history is not None and latest > history.epoch:  # a rank has had its share of it: all have begun it
            history = self._history_of(latest)
        if self.loaded is not None:
            if not several and (history.ended or history.is_blank):
                return None  # there is nothing of that epoch to ask for, or all of it
            if history.ended:
                history = self._history_of(history.epoch + 1)
            return self._record(history, 0, 0)
        if history is None or history.base.over or history.failed:
            if not several or not self._was_registered:
                return None
            history = self._history_of(self.epoch)
        if history.before:
            raise LarderError(f"rank {self.asked.rank} of {self.asked.world_size} was started again in the middle of "
                              f"epoch {history.epoch}, and what it had taken before is not known any more: start all "
                              "ranks from their last checkpoint")
        if not several and (history.ended or history.is_blank):
            return None
        return self._record(history, self.asked.world_size, self.asked.rank)

    def _record(self, history, world_size, rank):
        of = self.loaded or self.info
        dataset = of.dataset if self.loaded else of.fingerprint
        samples = of.samples if self.loaded else of.dataset_samples
        return _record.Record(dataset, of.view, self.asked.seed, self.asked.shuffle, samples=samples,
                              version=of.version, **history.record(world_size, rank))

    def _encoded(self, record):
        """Behind what this rank took, what ranks took that have had all of their share, and need not come again."""
        done = self.link.done if record.world_size else {}
        return b"".join([_record.encode(record), *(taken for epoch, taken in done.values() if epoch == record.epoch)])

    def _check(self, info):
        """Refuses another dataset than the one that something was taken of."""
        if self.loaded is not None:
            _state.check_dataset(self.loaded, self.asked, info)
        before = self.info
        if not self.begun or before is None:
            return
        what = self.asked.dataset.decode("utf-8", "replace")
        if (info.fingerprint, info.dataset_samples) != (before.fingerprint, before.dataset_samples):
            raise SourceChanged(f"the dataset {what!r} is another one than before the connection was lost: files were "
                                "added, taken away or changed. The next iteration begins the epoch again")
        if not _record.same_version(info.version, before.version):
            raise SourceChanged(f"the files of {what!r} are not those of before the connection was lost: they have the "
                                "same names and sizes, and were rewritten. The next iteration begins the epoch again")
        if info.view != before.view:
            raise SourceChanged(f"the subset of {what!r} is another one than before the connection was lost: what it "
                                "says has changed. The next iteration begins the epoch again")
        for field in _SAME:
            if getattr(info, field) != getattr(before, field):
                raise InvalidArgument(f"{field} of what is made of {what!r} is {getattr(info, field)}, and was "
                                      f"{getattr(before, field)} before the connection was lost: the daemon has "
                                      "another configuration. The next iteration begins the epoch again")

    def _came(self, session):
        """After the registration."""
        self.info, self.classes, self.anew = session.info, session.classes, True
        self._named = session.info.name.encode("utf-8", "surrogateescape")
        self._was_registered = True
        if self.asked.world_size > 1 and not self.begun and self.loaded is None:
            # Where the other ranks are: a rank that comes back goes on there, unless it was further.
            self.epoch = max(session.info.epoch, self.chosen)
        self._watch()

    def _watch(self):
        session = self.link.session
        if self.begun and self.asked.world_size > 1 and self.reconnect_s and session is not None and session.usable:
            _watch.watch(self, session)

    # ── epochs ──

    def follow(self):
        """Where the epoch that begins has another pipeline than the job, the job has ended."""
        if self.begun and self.asked.pipeline != self.schedule.at(self.epoch):
            self.let_go()
            self.chosen = self.epoch

    def agree(self):
        """Raises where ranks at other nodes were given something else, as far as that is known by now."""
        if self.agreement is None:
            self.agreement = _agree.Agreement(self)
        self.agreement.begin()

    def begin(self):
        """The history of the epoch that begins: of what a state says was taken, or of what another process of this rank
        has taken, or of nothing."""
        old, info = self.history, self.info
        several = self.asked.world_size > 1
        if self.loaded is not None or (self.begun and old.epoch == self.epoch and not (old.over or old.failed)):
            history = old  # the latter: an iter() that was not through, by a Timeout or Ctrl-C
        elif several and not self.begun and info.epoch == self.epoch and info.batch:
            history = old if old is not None and (old.epoch, old.batches) == (info.epoch, info.batch) else None
            if history is None:
                history = self._history_of(self.epoch)
                history.before = info.batch
                self._warn_of_before(stacklevel=4)
            history.failed = False
        else:
            history = self._history_of(self.epoch)
        if several and self.begun and self._kept is None and history is not old and not old.base.over:
            self._kept = old
        self.history, self.loaded, self.error, self.anew = history, None, None, True
        if not self.begun:
            self._began_as, self.begun = (self.asked.rank, self.asked.world_size), True
            self._watch()
        return history

    def _warn_of_before(self, stacklevel):
        asked, info = self.asked, self.info
        warnings.warn(f"rank {asked.rank} of {asked.world_size} goes on in the middle of epoch {info.epoch}: another "
                      f"process of this rank had its first {info.batch} batches, and this one does not get them. For "
                      f"whole epochs end the scripts of all ranks, and then the job (larder cancel {info.name}); "
                      "then start them again, all from one checkpoint or all without", stacklevel=stacklevel)

    def go_on(self):
        """Connects a job that has begun again, though nobody asks it for anything."""
        self._alone = True  # no daemon: the script asks once more when it comes
        try:
            self.open()
            if not self.history.ended:
                self.running(self.history)
        finally:
            self._alone = False

    def running(self, history, standing=False):
        """The session, with batches of the epoch asked for; another one where the last has ended. `standing`: the
        script goes on when the next batch comes."""
        while True:
            session = self.open()
            try:
                if session.epoch != history.epoch:
                    session.begin(history.epoch)
                session.ask(self.asked.prefetch, standing=standing)
                return session
            except Timeout:  # what the daemon does not read now it can have at the next call
                raise
            except BaseException as error:
                if not self.goes_on(error):
                    raise

    def first_came(self):
        """A batch has come of the epoch that the loop is in, where it was `anew`: all ranks have begun the epoch."""
        self.anew = False
        self.link.progress()
        if self._kept is not None:
            self._kept = None
            for rank, (epoch, _) in list(self.link.done.items()):
                if epoch < self.history.epoch:
                    del self.link.done[rank]

    def settle(self):
        """Where a rank is through with its epoch, what it had is known before its script goes on, and perhaps ends: a
        daemon that comes next would wait for it, and the others for that."""
        session = self.link.session
        if self.asked.world_size > 1 and self.history is not None and self.history.ended and self.is_running:
            try:
                session.settle()
            except LarderError:
                pass  # it comes back by itself, as long as its script lets it

    def take_back(self, history, before):
        """The batch that was written down last was not given to the loop after all: it comes again."""
        if history.filled[0] == before[0] + 1:  # no other thread has taken one since
            history.filled = before
            self.link.let_go()

    def ask_ahead(self, session):
        """At an epoch's end the next one's first batches are requested, if it is certain to come."""
        if session.epoch + 1 >= self.asked.epochs or self.schedule.begins(session.epoch + 1):
            return
        try:
            session.begin(session.epoch + 1)
            session.ask(self.asked.prefetch)
        except Timeout:
            pass  # the next call asks for them
        except LarderError as error:
            if not self.link.may_return(error):
                raise

    def goes_on(self, error):
        """After an error in a session: whether the epoch goes on in another one at once. After anything but an error of
        the session (Ctrl-C) it goes on at the next call; and after what else there is it does not."""
        if self.link.may_return(error):
            self.link.lose(error)
            return True
        if isinstance(error, JobCancelled):
            self.link.cancel(error)
        if isinstance(error, LarderError) or not self.reconnect_s:
            self.fail()
        else:
            self.link.let_go()
        return False

    def fail(self):
        """After an error that ends the job. An epoch that it broke off does not count: the next iteration begins it
        again."""
        history = self.history
        if self.begun and not (history.over or history.ended) and self.epoch == history.epoch + 1:
            self.epoch = history.epoch  # otherwise set_epoch chose another, or the loop has had all of it
        self.chosen = self.epoch
        self.let_go()

    def let_go(self):
        """Gives the registration up; the next use makes another job."""
        self.link.let_go()
        self.link.forget()
        if self.begun and not self.history.over:
            self.history.failed = True
        self.begun = self._was_registered = False
        self._kept = None
        self._named = b""

    def set_epoch(self, epoch, in_epoch):
        """in_epoch: the loop still has the iterator of its epoch."""
        session = self.link.session
        if epoch < self.epoch and session is not None:
            if self.asked.world_size > 1 and session.usable:
                raise InvalidArgument(f"epoch {epoch} of this job is over, and its ranks only go forward: the next is "
                                      f"{self.epoch}")
            self.let_go()  # a job's epochs only go forward as well: the next iteration makes another job
        if self.loaded is not None:
            if epoch != self.loaded.epoch:
                self.loaded = self.history = None
        elif self.history is not None and (not in_epoch or self.history.failed):
            self.history.over = True
        self.epoch = self.chosen = epoch

    # ── states ──

    def load(self, state):
        """The next iteration goes on where a state says."""
        if self.info is not None:
            _state.check_dataset(state, self.asked, self.info)
        self.let_go()
        self.loaded, self.agreement = state, None
        self.history = self._history_of(state.epoch, state.base)
        self.epoch = self.chosen = state.epoch

    def state(self, part=False):
        """Where the loop is. `part`: of this node's ranks, where others are at other nodes."""
        history, asked, of = self.history, self.asked, None
        if self.info is None:
            self.open()
        if history is None or history.over:
            epoch, base = self.epoch, Base()
        elif asked.world_size == 1 or not history.since:
            epoch, base = history.epoch, history.after(self.info.dataset_samples)
        elif asked.local_world_size and history.ended:  # ranks train in step: what one has had, all have had
            epoch, base = history.epoch, Base(history.batches, over=True)
        else:
            if asked.local_world_size:
                of = self._part(history, part)
            epoch, base = history.epoch, self._ask(history)
            of = None if base.over else of
        return _state.of_job(asked, self.info, epoch, base, self.schedule, of)

    def _part(self, history, wanted):
        """Which ranks the state is of, where others are at other nodes."""
        asked = self.asked
        if asked.sampler != _wire.ONCE:
            raise InvalidArgument("this job has a sampler, and ranks at several nodes: save the state between two "
                                  "epochs")
        ranks = _state.ranks_named(asked.local_first, asked.local_first + asked.local_world_size, asked.world_size)
        if not wanted:
            raise InvalidArgument(f"this job has ranks at several nodes, and this one knows what {ranks} took of the "
                                  "epoch. Call larder.gather_state(loader) in all ranks, which returns one state of "
                                  "all; state_dict(part=True) returns the part of this node")
        return _state.part_of(asked.local_first, asked.local_world_size, asked.world_size, history.base,
                              self.info.dataset_samples)

    def column(self, name):
        """A column of the dataset, of the daemon that has the job now."""
        with self.lock:
            while True:
                session = self.open()
                try:
                    return session.ask_column(name, self.timeout_s)
                except BaseException as error:
                    if not (session.torn or self.link.may_return(error)) or not self.goes_on(error):
                        raise

    def _ask(self, history):
        """What all ranks have taken by now."""
        if history.failed:
            raise LarderError(f"epoch {history.epoch} of this job was ended by an error, and what its other ranks have "
                              "taken is not known any more: use the last checkpoint")
        wait_s = STATE_WAIT_S if self.timeout_s is None else min(self.timeout_s, STATE_WAIT_S)
        while True:
            session = self.open() if history.ended else self.running(history)
            try:
                token = _record.decode(session.ask_state(history.epoch, history.since, wait_s))
                break
            except InvalidArgument:
                if history.ended:  # the other ranks have begun the next one, so they have taken all of this
                    return Base(history.batches, over=True)
                raise
            except BaseException as error:
                if not (session.torn or self.link.may_return(error)) or not self.goes_on(error):
                    raise
        if history.ended:
            return Base(history.batches, over=True)
        info, asked = self.info, self.asked
        if asked.local_world_size and token.epoch == history.epoch + 1:  # it was the epoch's last batch
            return Base(history.batches, over=True)
        if (token.epoch, token.dataset, token.view, token.samples, token.batches) != \
                (history.epoch, info.fingerprint, info.view, info.dataset_samples, history.batches) or \
                token.part != ((asked.local_first, asked.local_world_size, asked.world_size)
                               if asked.local_world_size else _record.WHOLE):
            raise FormatError(f"the daemon at {session.path} gave a state of something else than what was asked for")
        return Base(token.batches, token.taken, token.segments, copies=token.copies)
