"""Files as tables: readers, ids, classes, and gold and pool made of them."""
