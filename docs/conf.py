"""The site: `make docs` builds it into build/site, offline, every warning an error.

Pages are the Markdown files beside this one, in the order of index.md's tables of contents. The reference is made of
the code: `site_reference.py` writes what stands where a page says `<!-- names: training data -->`.
"""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "Understudy"
copyright = "the Understudy contributors, Apache-2.0"
release = version = installed("understudy-ml")

extensions = ["myst_parser", "sphinx.ext.autodoc", "site_reference"]

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 4
# Tables that experiments write begin at any level of heading.
suppress_warnings = ["myst.header"]

# In docstrings, `this` is code too.
default_role = "code"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
add_module_names = False

html_theme = "furo"
html_title = "Understudy"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
