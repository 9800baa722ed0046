"""The archive for reviewers: what was claimed, how to check it, and all of the evidence.

``claims`` turns records into rows: claim, command, cost, number, tolerance, place of the check.
``rules`` reads rules, ``surroundings`` lists machines, locks and licences, ``trials`` are changed
parameters, ``text`` makes the appendix, and ``archive`` adds source and records."""
