"""Toolkit for memory editors: sentence encoders, a fact memory, base classes. Import from ``ke_memory.plugin``."""
