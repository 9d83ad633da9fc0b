"""How Sphinx builds the site: `make docs`. Nothing is fetched, neither while it is built nor while it is read."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))
from forge import read_for_site  # noqa: E402
from gallery_parts import TeachingOrder, figure_scraper  # noqa: E402

from squeak import __version__  # noqa: E402

mpl.use("Agg")
project = "squeak"
author = "the squeak developers"
copyright = "the squeak developers, BSD-3 licence"  # noqa: A001
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "figures", "gallery/**/*.ipynb", "gallery/**/*.md5", "**sg_execution_times.rst"]
templates_path = ["_templates"]
nitpicky = True
# Bases of other libraries that a class page names; there is no inventory of theirs without a network.
nitpick_ignore_regex = [
    (r"py:.*", r"(sklearn|numpy|scipy|optuna|river|abc|enum|typing|collections|builtins|object)\b.*")
]
nitpick_ignore = [("py:class", "squeak.core.storage.StorageError")]  # raised, but not imported by users

html_theme = "furo"
html_title = f"squeak {version}"
html_static_path = ["_static"]
html_css_files = ["squeak.css"]
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e99", "color-brand-content": "#0b6e99"},
    "dark_css_variables": {"color-brand-primary": "#6fc3e8", "color-brand-content": "#6fc3e8"},
    "navigation_with_keys": True,
}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
suppress_warnings = ["config.cache"]  # the gallery's settings hold functions, which Sphinx cannot store

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's parameter lists name the types; signatures stay short
autodoc_member_order = "groupwise"
_FOREIGN_BASES = (
    "BaseEstimator, ClassifierMixin, ClusterMixin, RegressorMixin, TransformerMixin, OneToOneFeatureMixin, "
    "ClassNamePrefixFeaturesOutMixin, _SetOutputMixin, BaseSampler, Base, Estimator, Regressor, Classifier, "
    "ABC, Exception, object, tuple"
)
autodoc_default_options = {"members": True, "inherited-members": _FOREIGN_BASES}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": TeachingOrder,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e9,  # times of whatever machine built the site say little
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "reset_modules": ("matplotlib",),
    "notebook_images": False,
    "image_scrapers": (figure_scraper,),
    "plot_gallery": os.environ.get("SQUEAK_GALLERY", "True"),
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def skip_metadata_requests(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out scikit-learn's generated ``set_fit_request`` and its kin: every estimator has the same ones."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def find_by_last_name(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Resolve a bare name of a docstring, as ``KernelRidge``, to the one page that documents it."""
    if node.get("refdomain") != "py":
        return None
    node["refspecific"], target = True, node["reftarget"]
    domain = env.get_domain("py")
    for name in (target, target.rpartition(".")[2]):
        found = domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], name, node, content)
        if found is not None:
            return found
    return None


def rewrite_links(app: Any, docname: str, source: list[str]) -> None:
    """Let links that a forge resolves in the repository lead to pages of the site."""
    if Path(app.env.doc2path(docname)).suffix == ".md":
        source[0] = read_for_site(source[0])


def setup(app: Any) -> None:
    """Connect the hooks."""
    app.connect("missing-reference", find_by_last_name)
    app.connect("autodoc-skip-member", skip_metadata_requests)
    app.connect("source-read", rewrite_links)
