"""Tells of the distribution `larder`, another project's, where it is installed too.

This package comes with the distribution `larderd`. The other one's package has the same name. Where both lie in one
folder, the one installed last has overwritten files of the first, and taking one away takes files of the other.
"""

import os
import sys
import warnings

OTHER = "larder"


def tell():
    """Warns where it is there. It looks at names in folders alone: importlib.metadata takes long to import."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        for name in names:
            if name.startswith(OTHER + "-") and name.endswith((".dist-info", ".egg-info")):
                _warn(folder, name)
                return


def _warn(folder, name):
    from importlib import metadata
    found = metadata.Distribution.at(os.path.join(folder, name))
    here = os.path.dirname(os.path.abspath(__file__))
    warnings.warn(f"the distribution '{OTHER}' {found.version} in {folder} is another project, whose package has the "
                  f"name of this one, in {here}: one hides or overwrites the other. Take both away and install this "
                  f"one again: pip uninstall {OTHER} larderd && pip install larderd", stacklevel=2)
