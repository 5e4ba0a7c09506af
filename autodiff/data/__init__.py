"""Batches of examples, and files they come from."""

from __future__ import annotations

from .idx import read_idx as read_idx
from .loader import DataLoader as DataLoader
