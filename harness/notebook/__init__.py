"""What the notebooks show: they import everything from here and hold no logic of their own."""
