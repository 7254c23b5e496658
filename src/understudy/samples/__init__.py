"""Files to try things on, made up by the package itself: nothing is downloaded, and nobody's data is in them."""
