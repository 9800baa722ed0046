"""Rules of the shop, in plain Python."""

DEAR_CENTS = 5_000


def kind_of(cents):
    return None if cents is None else "dear" if cents >= DEAR_CENTS else "cheap"
