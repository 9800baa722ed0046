"""The coordinator: `machine` has the theory of operation and the list of its parts."""
