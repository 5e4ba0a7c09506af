"""Batches of examples."""

from __future__ import annotations

from .loader import DataLoader as DataLoader
