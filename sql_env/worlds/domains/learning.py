"""Library, university, conference."""

from __future__ import annotations

DOMAINS = ()
