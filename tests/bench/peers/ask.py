"""Asks one peer whether it is there, and has it write what it keeps. In a process of its own, because libraries of two
peers can make one process crash: TensorFlow's and torchvision's, for one.

usage: ask.py SPEC

SPEC is the JSON of a Spec. Among the lines on standard output, which are the libraries' too, is one "answer", and JSON:
[version, null], or [null, reason]."""

import json
import os
import sys

import job


def main():
    spec = job.Spec(**json.loads(sys.argv[1]))
    peer = job.peer_module(spec.peer)
    version, reason = peer.available()
    print("\nanswer " + json.dumps([version, reason]), flush=True)
    if version and hasattr(peer, "prepare"):
        peer.prepare(spec)
    sys.stdout.flush()
    os._exit(0)  # some libraries do not end well


if __name__ == "__main__":
    main()
