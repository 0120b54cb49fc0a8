"""Larder as in peer_larder.py, on a store that was packed with --planes. Pixels are those of peer_larder.py."""

import functools

import peer_larder

PACKAGES = peer_larder.PACKAGES
WARM = peer_larder.WARM
available = peer_larder.available
prepare = functools.partial(peer_larder.prepare, store="planes")
server = peer_larder.server
loader = functools.partial(peer_larder.loader, store="planes")
