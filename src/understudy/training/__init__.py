"""One loop, and what it is told, keeps and leaves behind."""
