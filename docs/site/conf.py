"""Sphinx settings. The site works offline: it loads no fonts and no scripts from other sites."""

from importlib import metadata

project = "ke"
author = "the authors of ke"
copyright = "the authors of ke"  # noqa: A001  the name that Sphinx reads
release = metadata.version("ke-core")
version = release
html_title = "ke: knowledge editing"
extensions = ["myst_parser"]
exclude_patterns = ["build"]
templates_path = ["templates"]
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["ke.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "version.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
smartquotes = False  # quoted text is often meant to be copied
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # browsers refuse to load the summaries of a site opened from a disk
html_theme_options = {"navigation_with_keys": True}
highlight_language = "text"
myst_heading_anchors = 4  # as on GitHub
suppress_warnings = [
    "misc.highlighting_failure",  # JSON examples with an ellipsis are not valid JSON
    "myst.header",  # a plugin's README may start with only its title
]


def repository() -> str:
    """Return the address under ``[project.urls] Repository`` in core/pyproject.toml, or an empty text."""
    for line in metadata.metadata("ke-core").get_all("Project-URL") or ():
        label, _, address = line.partition(", ")
        if label.lower() == "repository":
            return str(address)
    return ""


html_context = {"repository": repository()}
