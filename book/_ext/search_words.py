"""Let the search find Korean and Chinese words, which no spaces set apart.

A Korean word carries its particle (마스크를), and Chinese writes without spaces. So the
index holds every character and every pair of neighbours, and a query is looked up by
its pairs: a page is found if it has them all. English words are Sphinx's.
"""

import re
from itertools import pairwise

from sphinx.search.en import SearchEnglish

RUN = "가-힣\u3400-\u4dbf\u4e00-\u9fff"
"""Hangul syllables and Chinese characters, as in a class of a regular expression."""
WORDS = re.compile(rf"([{RUN}]+)|(?:(?![{RUN}])\w)+")


class SearchPairs(SearchEnglish):
    """Splits words of Hangul or Chinese characters into pairs."""

    js_splitter_code = rf"""
var splitQuery = (query) => {{
  const words = query.match(/[{RUN}]+|(?:(?![{RUN}])[\p{{L}}\p{{N}}_])+/gu) ?? [];
  const pairs = (word) => [...word].slice(1).map((next, i) => word[i] + next);
  const isRun = (word) => word.length > 1 && /[{RUN}]/.test(word);
  return words.flatMap((word) => (isRun(word) ? pairs(word) : [word]));
}};
"""

    def split(self, input: str) -> list[str]:
        """Return the characters and pairs of runs, and other words as they are."""
        found: list[str] = []
        for word in WORDS.finditer(input):
            run = word[1]
            found += [*run, *map("".join, pairwise(run))] if run else [word[0]]
        return found


class SearchKorean(SearchPairs):
    """For the Korean edition."""

    lang = "ko"
    language_name = "Korean"


class SearchChinese(SearchPairs):
    """For the Chinese edition."""

    lang = "zh"
    language_name = "Chinese"


def setup(app):
    for language in (SearchKorean, SearchChinese):
        app.add_search_language(language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
