"""The code of the notebooks, which hold no logic of their own."""
