"""Failures as data: seeded schedules, files of the user's, and the injector that applies them."""
