"""The fault catalogue: the single place of each fault's meaning, signatures and advice (one TOML file a family)."""

from __future__ import annotations

from correlator.core.catalogue.loader import load_catalogue
from correlator.core.catalogue.model import Catalogue, CheckpointTrust, Entry, Rival, Setting, Signature, Variant, When

__all__ = [
    "Catalogue",
    "CheckpointTrust",
    "Entry",
    "Rival",
    "Setting",
    "Signature",
    "Variant",
    "When",
    "load_catalogue",
]
