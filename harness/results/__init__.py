"""What was measured: records, where they are kept, where they come from, and them as tables.

Knows no experiment: whoever only reads results needs nothing else.
"""
