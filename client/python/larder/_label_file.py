"""Files of labels: a line is a sample's key, path or position, and then a number, several, or the name of a class.

What stands around a name, and which lines say nothing, is as in list files, which the daemon reads
(sampler/view_line.c); one table of lines tests both.
"""

import os
import re

import numpy as np

from .errors import FormatError, InvalidArgument, NotFound

_INT = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|nan|inf(inity)?)", re.I)
_POSITION = re.compile(r'"?([0-9]+)"?[ \t]*(?:[,; \t]|$)')
_DECIMAL_COMMA = re.compile(r"[0-9],[0-9]")
_TITLES = frozenset(("path", "paths", "file", "files", "filename", "name", "names", "filepath", "image", "images",
                     "img", "imageid", "imgpath", "imagepath", "imagename", "imagefile", "key", "keys", "id", "ids",
                     "sample", "samples", "index", "idx", "uri", "position", "relpath"))
_LABELS_MAX = 65536  # of one line


class Names:
    """The samples of a folder, by their keys and paths."""

    def __init__(self, files):
        self.root = os.fspath(files.root)
        self.example = files.keys[0] if files.keys else "class/file.jpg"
        self._index = files.others()
        self._index.update((key, index) for index, key in enumerate(files.keys))
        self._roots = [root.rstrip("/") + "/" for root in dict.fromkeys((self.root, os.path.realpath(self.root)))]

        self.find_key = self._index.get

    def find(self, name):
        """The sample's position; None where there is none."""
        index = self._index.get(name)
        return index if index is not None else self._find_path(name)

    def _find_path(self, name):
        if "//" in name or "./" in name:
            first = "/" if name.startswith("/") else ""
            name = first + "/".join(part for part in name.split("/") if part not in ("", "."))
        for root in self._roots:
            if name.startswith(root):
                return self._index.get(name[len(root):])
        return self._index.get(name)

    def why_not(self, name):
        """What is said of a name that none has."""
        if "\0" in name:
            hint = "; it has zero bytes, as UTF-16 has: save the file as UTF-8"
        elif not _is_text(name):
            hint = "; it is not UTF-8: save the file as UTF-8"
        elif "\\" in name:
            hint = "; it has \\, and keys have /"
        elif name.startswith("/"):
            hint = "; this path does not lie below it"
        elif "/" not in name:
            hint = "; it has no folder"
        else:
            hint = ""
        return (f"{name!r} is no sample of {self.root}: keys are paths below it, such as {self.example!r}, and "
                f"positions are numbers{hint}")


def _is_text(text):
    try:
        text.encode()
    except UnicodeEncodeError:  # a byte that no UTF-8 has, kept as a surrogate
        return False
    return True


class LabelFile:
    """The lines of a file of labels that say something."""

    def __init__(self, path):
        self.path = os.path.expanduser(path)
        with open(self.path, "rb") as file:
            said = file.read()
        if said[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise FormatError(f"labels {self.path}:1:1: is UTF-16: save the file as UTF-8")
        text = said.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
        back, end = text.find("\r"), text.find("\n")
        alone = back >= 0 and (end < 0 or back + 1 < end)
        self._lines = [(number, line.removesuffix("\r")) for number, line in
                       enumerate(text.split("\r" if alone else "\n"), 1) if line.strip(" \t\r")]
        self._names = None

    def read(self, count, files):
        """The positions of samples of a dataset of `count`, an array, and what they have, a list: a number each, a
        list of several, or a name each. files() gives the dataset's Files, for keys and paths."""
        rows, values, places, width = [], [], [], None
        first = True
        for number, line in self._lines:
            found = self._read_plain(line) or self._read_line(number, line, first, files)
            if found is None:
                first = first and line.lstrip(" \t").startswith("#")
                continue
            first = False
            row, numbers, column = found
            width = width or len(numbers)
            if row >= count:
                self._fail(number, column, f"position {row} is beyond the dataset's {count} samples")
            if values and isinstance(numbers[0], str) != isinstance(values[0][0], str):
                self._fail(number, column, f"has {numbers[0]!r}, and the lines before it have "
                           f"{values[0][0]!r} and the like: give numbers in all lines, or names in all")
            if len(numbers) != width:
                self._fail(number, column, f"has {len(numbers)} number(s), and the lines before it have {width}")
            if any(isinstance(value, int) and not -2**63 <= value < 2**63 for value in numbers):
                self._fail(number, column, "a number is beyond 64 bits")
            rows.append(row)
            values.append(numbers)
            places.append((number, column))
        if not rows:
            raise FormatError(f"labels {self.path} has no line with a key and a number")
        rows = np.array(rows, np.int64)
        self._check_twice(rows, places)
        return rows, [numbers[0] for numbers in values] if width == 1 else values

    def _check_twice(self, rows, places):
        order = np.argsort(rows, kind="stable")
        again = np.flatnonzero(np.diff(rows[order]) == 0)
        if again.size:
            first, second = order[again[0]], order[again[0] + 1]
            self._fail(*places[second], f"the sample of line {places[first][0]} is there twice: leave one of its "
                       "labels out", InvalidArgument)

    def _fail(self, number, column, text, kind=FormatError):
        raise kind(f"labels {self.path}:{number}:{column}: {text}")

    def _read_plain(self, line):
        """As _read_line, of a name, a comma and a whole number, quickly; None of what may be anything else."""
        name, _, label = line.rpartition(",")
        if self._names is None or not (label.isdigit() and label.isascii() and name[-1:].isalpha()):
            return None
        row = self._names.find_key(name)
        # A name that ends as a number does may have one of its own.
        return None if row is None or name.lower().endswith(("nan", "inf", "infinity")) else (row, [int(label)], 1)

    def _read_line(self, number, text, first, files):
        """A sample's position, its numbers, or its class's name alone, and the line's first column; None of a line
        that says nothing."""
        line = text.strip(" \t")
        column = len(text) - len(text.lstrip(" \t")) + 1
        position = _POSITION.match(line)
        if position:
            tail = line[position.end():].strip(" \t")
            numbers = self._numbers(tail)
            comma = _has_decimal_comma(line[position.end(1):].lstrip('"'))
            if numbers and not comma:
                return int(position[1]), numbers, column
            if not numbers and "." not in tail and _class_name(tail):
                return int(position[1]), [_class_name(tail)], column
            if numbers or "." not in tail:  # else it may be a name that begins with a number
                self._refuse_labels(number, column + position.end(), tail, comma)
        if first and self._is_titles(number, column, line):
            return None
        if self._names is None:
            self._names = Names(files())
        row, tail, at = self._find(number, column, line)
        if row is None:
            if line.startswith("#"):
                return None
            self._fail(number, column, self._names.why_not(_first_field(line)), NotFound)
        numbers, comma = self._numbers(tail), _has_decimal_comma(line[at:])
        if numbers is None and not comma and _class_name(tail):
            numbers = [_class_name(tail)]
        if numbers is None or (numbers and comma):
            self._refuse_labels(number, column + at, tail, comma)
        if not numbers:
            self._fail(number, column + at, "has no label: a line is a key and its number(s), or its class's name")
        return row, numbers, column

    def _find(self, number, column, line):
        """Of the parts at the line's beginning, with or without quotes, the one that names a sample: its position,
        what follows, and where. The whole line is none where a shorter part is one: it would have no label."""
        quoted = re.match(r'"((?:[^"]|"")*)"', line)
        if quoted:
            row = self._names.find(quoted[1].replace('""', '"'))
            tail = line[quoted.end():].strip(" \t")
            if row is not None and (not tail or tail[0] in ",;" or line[quoted.end()] in " \t"):
                return row, tail[1:].strip(" \t") if tail[:1] in (",", ";") else tail, quoted.end()
        found, labels, name, fallback = None, True, line, None
        for _ in range(_LABELS_MAX):
            shorter, field = _shorten(name)
            if shorter is None:
                break
            name, labels = shorter, labels and self._numbers(field) not in (None, [])
            row = self._names.find(name)
            if row is not None and labels:
                if found:
                    self._fail(number, column, "may name two samples: put the name in double quotes")
                found = row, _tail(line, name), len(name)
            elif row is not None:
                fallback = fallback or (row, _tail(line, name), len(name))
        if found or fallback:
            return found or fallback
        return self._names.find(line), "", len(line)

    def _refuse_labels(self, number, column, tail, comma):
        if comma:
            self._fail(number, column, f"{tail!r} has a decimal comma: write a point")
        if not tail.strip('", \t;'):
            self._fail(number, column, "has no label: give a number, or leave the line out")
        self._fail(number, column, f"{tail!r} is neither numbers nor one name: labels are numbers, the same many in "
                   "each line, or the name of a class, in double quotes where it has a comma, a semicolon, a point or "
                   "a slash")

    def _is_titles(self, number, column, line):
        """Whether a first line names the columns: by the word over the names, or as no field looks like a path or a
        number."""
        fields = [field.strip(' \t"') for field in re.split(r"[,;\t]", line)]
        if len(fields) == 1:
            fields = line.split()
        if len(fields) > 1 and not fields[0]:
            self._fail(number, column, "the first column has row numbers: write the file without them (pandas: "
                       "to_csv(..., index=False))")
        if fields[0].replace("_", "").replace("-", "").lower() in _TITLES:
            return True
        titles = len(fields) > 1 and not any(_NUMBER.fullmatch(field) for field in fields) \
            and not re.search(r"[/\\.#]", fields[0])
        if titles and not _is_text(line):
            self._fail(number, column, "is not UTF-8: save the file as UTF-8")
        return titles

    def _numbers(self, text):
        """The numbers of fields; None where one is none."""
        numbers = []
        while text:
            text, field = _shorten(text, alone=True)
            field = field[1:-1] if len(field) > 1 and field[0] == field[-1] == '"' else field
            if _INT.fullmatch(field):
                numbers.append(int(field))
            elif _NUMBER.fullmatch(field):
                numbers.append(float(field))
            else:
                return None
        return numbers[::-1]


def _shorten(text, alone=False):
    """The text without its last field, and the field. Of a text of one field: None and "", or with `alone` "" and
    the text."""
    at = max(text.rfind(","), text.rfind(";"), text.rfind(" "), text.rfind("\t"))
    if at < 0:
        return ("", text) if alone else (None, "")
    name = text[:at + 1].rstrip(" \t")
    if name[-1:] in (",", ";"):
        name = name[:-1].rstrip(" \t")
    return name, text[at + 1:]


def _class_name(tail):
    """What follows a sample's name, as the name of a class; None where it is more than one field, or none, or without
    quotes may be a piece of a path: the second half of a wrong name is no label of another sample."""
    quoted = re.fullmatch(r'"((?:[^"]|"")*)"', tail)
    name = quoted[1].replace('""', '"') if quoted else None if re.search(r'[",;\t/\\.]', tail) else tail
    return name if name and _is_text(name) else None


def _tail(line, name):
    """What follows a name, without what separates it."""
    tail = line[len(name):].strip(" \t")
    return tail[1:].strip(" \t") if tail[:1] in (",", ";") else tail


def _first_field(line):
    quoted = re.match(r'"((?:[^"]|"")*)"', line)
    return quoted[1].replace('""', '"') if quoted else re.split(r"[,;\t]", line)[0].strip()


def _has_decimal_comma(tail):
    """Whether a comma stands in a number: where something else separates the first from the name."""
    tail = tail.lstrip(" \t")
    return bool(_DECIMAL_COMMA.search(tail)) and (not tail.startswith(",") or '"' in tail)
