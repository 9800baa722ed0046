"""Faultline: breaks clusters under stream-processing workloads and measures what was saved."""

__version__ = "0.1.0"
