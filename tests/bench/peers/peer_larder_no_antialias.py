"""Larder as in peer_larder.py, without the filter when it makes images smaller: each pixel of the result lies between
four pixels of the crop, and is interpolated from them. That is what peer_tfdata.py does, and for comparison with it
alone. The pixels are coarser than those of peer_larder.py."""

import functools

import peer_larder

PACKAGES = peer_larder.PACKAGES
WARM = peer_larder.WARM
available = peer_larder.available
prepare = peer_larder.prepare
server = peer_larder.server
loader = functools.partial(peer_larder.loader, antialias=False)
