"""Pages: one assessment of records, shown as pages, figures, tables and an archive.

``assessment`` judges the runs of an experiment, and ``report`` and ``site`` write pages: of one
results folder, or of any sets with an index, filters and a page for every kill. ``artifact`` packs
an archive for reviewers."""
