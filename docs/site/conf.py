"""Sphinx's settings. Nothing is fetched, while building or while reading: no fonts, no scripts of others."""

project = "ke"
author = "the authors of ke"
html_title = "ke: knowledge editing"
extensions = ["myst_parser"]
exclude_patterns = ["build"]
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["ke.css"]
smartquotes = False  # what stands between quotes is often meant to be copied
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # they are fetched, which browsers refuse where the site lies on a disk
html_theme_options = {"navigation_with_keys": True}
highlight_language = "text"
myst_heading_anchors = 4  # as on GitHub: #what-the-demo-prints
suppress_warnings = [
    "misc.highlighting_failure",  # examples with an ellipsis in them are no whole JSON
    "myst.header",  # a plugin's README may begin with its title alone
]
