"""preprocess/ from Python: Probe(library).prepare(pipeline, bytes, key) gives an array, or raises Bad."""

import ctypes
import json

import numpy as np

DTYPES = {0: np.uint8, 1: np.float16, 2: np.float32}
TEXT_BYTES = 512


class Plan(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in
                ("skip", "in_width", "in_height", "out_width", "out_height", "x", "y", "width", "height")]
    _fields_ += [("choice", ctypes.c_int32 * 32), ("real", ctypes.c_double * 48), ("seed", ctypes.c_uint64)]


class Bad(Exception):
    def __init__(self, code, reason, text):
        super().__init__(text)
        self.code, self.reason = code, reason


class Probe:
    def __init__(self, path, pixels_max=200_000_000):
        self.library = ctypes.CDLL(path)
        self.library.probe_simd.restype = ctypes.c_char_p
        if self.library.probe_init(ctypes.c_uint64(pixels_max)):
            raise RuntimeError("probe_init failed")
        self.text = ctypes.create_string_buffer(TEXT_BYTES)

    def simd(self, number=-1):
        name = self.library.probe_simd(number)
        return name.decode() if name else None

    def _check(self, code, reason=0):
        if code:
            raise Bad(code, reason, self.text.value.decode())

    def shape(self, pipeline):
        """The array's shape and type."""
        out = (ctypes.c_uint64 * 6)()
        self._check(self.library.probe_shape(json.dumps(pipeline).encode(), out, self.text))
        height, width, channels, dtype, layout, _ = out
        return ((channels, height, width) if layout else (height, width, channels)), DTYPES[dtype]

    def sample_bytes(self, pipeline):
        """Also of a pipeline with views."""
        out = (ctypes.c_uint64 * 6)()
        self._check(self.library.probe_shape(json.dumps(pipeline).encode(), out, self.text))
        return out[5]

    def prepare(self, pipeline, data, key=(0, 0, 0), out=None):
        if out is None:
            shape, dtype = self.shape(pipeline)
            out = np.empty(shape, dtype)
        reason = ctypes.c_int()
        code = self.library.probe_prepare(
            json.dumps(pipeline).encode(), data, ctypes.c_size_t(len(data)), (ctypes.c_uint64 * 3)(*key),
            out.ctypes.data_as(ctypes.c_void_p), ctypes.byref(reason), self.text)
        self._check(code, reason.value)
        return out

    def units(self, seed, count):
        """The uniform numbers that a seed begins with."""
        out = np.empty(count)
        self.library.probe_units(ctypes.c_uint64(seed), ctypes.c_size_t(count), out.ctypes.data_as(ctypes.c_void_p))
        return out

    def key(self, pipeline, seed, dataset, epoch, index):
        """The key of the draws that a daemon makes for a job with shuffle="strict", of a dataset's fingerprint."""
        out = (ctypes.c_uint64 * 3)()
        self._check(self.library.probe_key(json.dumps(pipeline).encode(), ctypes.c_uint64(seed),
                                           (ctypes.c_uint64 * 2)(*dataset), epoch, index, out, self.text))
        return tuple(out)

    def stream(self, key, place, bound=1):
        """What an operator at this place of a list draws first: a number below the bound, or two uniform ones."""
        below, units = ctypes.c_uint64(), (ctypes.c_double * 2)()
        self.library.probe_stream((ctypes.c_uint64 * 3)(*key), ctypes.c_uint64(place), ctypes.c_uint64(bound),
                                  ctypes.byref(below), units)
        return below.value, tuple(units)

    def boxes(self, boxes):
        """The boxes, an array (N, 4), of the images that plan plans for from here on."""
        boxes = np.ascontiguousarray(boxes, np.float32)
        self.library.probe_boxes(boxes.ctypes.data_as(ctypes.c_void_p), len(boxes))

    def plan(self, pipeline, key, width, height, op=0):
        out = Plan()
        self._check(
            self.library.probe_plan(
                json.dumps(pipeline).encode(), (ctypes.c_uint64 * 3)(*key), width, height, op, ctypes.byref(out),
                self.text))
        return out
