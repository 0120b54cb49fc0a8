"""Importing this lets a test of this folder import what the folder above it holds."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
