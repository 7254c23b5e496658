"""The label page (extra ``label``): people label rows in the browser.

``answer_book`` stores the answers, ``cards`` the content of rows, ``serve`` the server and the files.
"""
