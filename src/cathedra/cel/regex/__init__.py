"""Regular expressions with RE2's syntax and semantics, by the engine that is installed."""

from __future__ import annotations

from cathedra.cel.regex.engine import EngineMissing, Regex, compile_with, engine_name
from cathedra.cel.regex.syntax import PatternError

__all__ = ["EngineMissing", "PatternError", "Regex", "compile_with", "engine_name"]
