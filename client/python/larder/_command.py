"""The command `larder`, for what the package has it do."""

import os
import shutil
import subprocess

from ._autostart import find_daemon
from .errors import LarderError, NotFound


def find_larder():
    """The path of `larder`: beside larderd, or in PATH."""
    daemon = find_daemon()
    beside = os.path.join(os.path.dirname(daemon), "larder") if daemon else None
    found = beside if beside and os.access(beside, os.X_OK) else shutil.which("larder")
    if not found:
        raise NotFound("the command `larder` was not found, which packs: `pip install larderd` brings it; or put it in "
                       "PATH")
    return found


def run_pack(words, options, quiet):
    """`larder pack WORDS`, with options by the names that the command has: chunk_size=64, planes=True."""
    command = [find_larder(), "pack", *words]
    for name, value in options.items():
        if value is not False and value is not None:
            command.append("--" + name.replace("_", "-"))
            if value is not True:
                command.append(str(value))
    if quiet:
        command.append("--quiet")
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if quiet else None,
                         stderr=subprocess.PIPE if quiet else None, check=False)
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").strip() if quiet else "its message is above"
        raise LarderError(f"larder pack {' '.join(words)} failed: {said or f'exit status {ran.returncode}'}")
