"""The page of results, the digest and the README show what the files of results say."""

import json
import re

from loading import load_file

from results import paper
from results.conditions import ROOT

page = load_file(ROOT / "book" / "tools" / "make_results.py")
