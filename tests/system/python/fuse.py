"""A read-only FUSE file system of a tree, spoken by hand over /dev/fuse, whose reads of files can be made to wait.

    with fuse.Mount(source, folder) as mount: …; mount.hang(); …; mount.let_go()

Reads go to the server one by one (FOPEN_DIRECT_IO), so that whoever reads waits in the kernel for the server, which no
signal ends."""

import ctypes
import errno
import os
import stat
import struct
import threading

IN = struct.Struct("=IIQQIIIHH")  # len, opcode, unique, nodeid, uid, gid, pid, total_extlen, padding
ATTR = struct.Struct("=QQQQQQIIIIIIIIII")
LOOKUP, GETATTR, OPEN, READ, STATFS, RELEASE, INIT, OPENDIR, READDIR, RELEASEDIR = 1, 3, 14, 15, 17, 18, 26, 27, 28, 29
FORGET, INTERRUPT, BATCH_FORGET = 2, 36, 42
DIRECT_IO = 1
MS_RDONLY, MS_NOSUID, MS_NODEV, MNT_DETACH = 1, 2, 4, 2
BUFFER = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


def can(folder):
    """Whether this process may mount such a file system."""
    try:
        Mount(folder, folder).end()
    except OSError:
        return False
    return True


class Mount:
    def __init__(self, source, folder):
        self.folder, self.n_waiting = folder, 0
        self._paths, self._numbers = {1: source}, {source: 1}
        self._go = threading.Event()
        self._go.set()
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        if _libc.mount(b"larder-test", os.fsencode(folder), b"fuse", MS_RDONLY | MS_NOSUID | MS_NODEV,
                       options.encode()):
            os.close(self._fd)
            raise OSError(ctypes.get_errno(), "mount")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def hang(self):
        self._go.clear()

    def let_go(self):
        self._go.set()

    def end(self):
        self.let_go()
        _libc.umount2(os.fsencode(self.folder), MNT_DETACH)
        os.close(self._fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _serve(self):
        while True:
            try:
                request = os.read(self._fd, BUFFER)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):
                    continue
                return  # unmounted
            _, opcode, unique, node, *_ = IN.unpack_from(request)
            if opcode == READ:
                threading.Thread(target=self._answer, args=(opcode, unique, node, request[IN.size:]),
                                 daemon=True).start()
            elif opcode not in (FORGET, INTERRUPT, BATCH_FORGET):
                self._answer(opcode, unique, node, request[IN.size:])

    def _answer(self, opcode, unique, node, body):
        try:
            code, answer = 0, self._of(opcode, self._paths.get(node), body)
        except OSError as error:
            code, answer = -error.errno, b""
        try:
            os.write(self._fd, struct.pack("=IiQ", 16 + len(answer), code, unique) + answer)
        except OSError:
            pass  # nobody waits for it any more

    def _of(self, opcode, path, body):
        if opcode == INIT:
            major, minor, ahead, _ = struct.unpack_from("=IIII", body)
            return struct.pack("=IIIIHHIIHHI24x", 7, 31, ahead, 0, 16, 12, 1 << 17, 1, 0, 0, 0)
        if opcode == LOOKUP:
            path = os.path.join(path, os.fsdecode(body.rstrip(b"\0")))
            number = self._numbers.setdefault(path, len(self._numbers) + 1)
            self._paths[number] = path
            return struct.pack("=QQQQII", number, 0, 1, 1, 0, 0) + self._attributes(path, number)
        if opcode == GETATTR:
            return struct.pack("=QII", 1, 0, 0) + self._attributes(path, self._numbers[path])
        if opcode in (OPEN, OPENDIR):
            return struct.pack("=QII", 0, DIRECT_IO if opcode == OPEN else 0, 0)
        if opcode == READ:
            return self._read(path, *struct.unpack_from("=QQI", body)[1:])
        if opcode == READDIR:
            return self._list(path, *struct.unpack_from("=QQI", body)[1:])
        if opcode == STATFS:
            return struct.pack("=QQQQQIIII24x", 1, 0, 0, 1, 0, 4096, 255, 4096, 0)
        if opcode in (RELEASE, RELEASEDIR):
            return b""
        raise OSError(errno.ENOSYS, "not done here")

    @staticmethod
    def _attributes(path, number):
        found = os.lstat(path)
        seconds, ns = divmod(found.st_mtime_ns, 10**9)
        return ATTR.pack(number, found.st_size, found.st_blocks, seconds, seconds, seconds, ns, ns, ns, found.st_mode,
                         1, found.st_uid, found.st_gid, 0, 4096, 0)

    def _read(self, path, offset, length):
        self.n_waiting += not self._go.is_set()
        self._go.wait()
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(length)

    @staticmethod
    def _list(path, offset, length):
        answer = b""
        for number, name in list(enumerate([".", ".."] + sorted(os.listdir(path)), 1))[offset:]:
            kind = stat.S_IFMT(os.lstat(os.path.join(path, name)).st_mode) >> 12
            entry = os.fsencode(name)
            entry = struct.pack("=QQII", number + 1000, number, len(entry), kind) + entry
            entry += b"\0" * (-len(entry) % 8)
            if len(answer) + len(entry) > length:
                break
            answer += entry
        return answer
