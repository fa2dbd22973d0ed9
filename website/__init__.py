"""Makes the documentation's site: its pages, a reference generated from the code, and the pictures."""
