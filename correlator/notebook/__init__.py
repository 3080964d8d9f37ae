"""A run as a notebook shows it: tidy frames, charts, a card, and a notebook that tells the story of a failure.

Nothing here is imported before it is used; the charts need altair (`pip install 'rank-correlator[notebook]'`).
"""
