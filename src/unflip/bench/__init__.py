"""The bench: experiments as data (spec), one cell (run), its record (store), and many of them at once (schedule)."""
