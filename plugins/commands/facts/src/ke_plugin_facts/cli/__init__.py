"""The commands of this plugin, one per module."""
