"""Larder as in peer_larder.py, on the folder of images as it is, without a store."""

import functools

import peer_larder

PACKAGES = peer_larder.PACKAGES
WARM = peer_larder.WARM
LISTS = peer_larder.LISTS
available = peer_larder.available
server = peer_larder.server
loader = functools.partial(peer_larder.loader, store="folder")
