"""Static pages from any set of records: the report with filters, and a page for every kill.

`build` writes them, `kills` reads what died and what followed, `picture` draws that on one time
axis, `facets` says by what a reader can choose. The pages need no server and no network."""
