"""The page where people label rows: ``understudy label`` (extra ``label``), and what it is made of.

``answers`` keeps what was said and who may answer what; ``serve`` shows it to browsers. No other folder knows of pages.
"""
