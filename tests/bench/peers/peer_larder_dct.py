"""Larder as in peer_larder.py, with dct_scaling: a JPEG is decoded at a half, a quarter or an eighth of its size where
at least a factor of two is left to shrink. So it changes only crops that are more than four times as wide and as high
as what they become. Pixels are nearly those of peer_larder.py."""

import functools

import peer_larder

PACKAGES = peer_larder.PACKAGES
WARM = peer_larder.WARM
available = peer_larder.available
prepare = peer_larder.prepare
server = peer_larder.server
loader = functools.partial(peer_larder.loader, dct_scaling=True)
