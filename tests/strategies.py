"""What Hypothesis draws in more than one test."""

from hypothesis import strategies as st

from transformer_lite.data.trees import Tree


def trees(labels, tags, words):
    """Random trees of several constituents.

    Args:
        labels: Of the constituents.
        tags: Of the words.
        words: A strategy.
    """
    tags = st.sampled_from(tags)
    return st.recursive(
        st.builds(lambda tag, word: Tree(tag, (word,)), tags, words),
        lambda nodes: st.builds(
            lambda label, children: Tree(label, tuple(children)),
            st.sampled_from(labels),
            st.lists(nodes, min_size=1, max_size=4),
        ),
        max_leaves=20,
    ).filter(lambda tree: not tree.is_tag)
