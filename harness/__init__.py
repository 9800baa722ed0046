"""Faultline: breaks clusters under stream-processing workloads and measures what was saved."""

__version__ = "1.0.0"
