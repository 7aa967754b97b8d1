"""Link the names of PyTorch in signatures and text to PyTorch's own documentation.

An inventory would have to be downloaded by every build; the addresses follow from the
names, so the book builds offline.
"""

from docutils import nodes

DOCS = "https://docs.pytorch.org/docs/stable"
# Shape annotations print the class without its module.
SHORT = {"Tensor": "torch.Tensor"}
PAGES = {"torch.Tensor": "tensors.html", "torch.device": "tensor_attributes.html"}


def resolve(app, env, node, contnode):
    """Return a link for an unresolved Python name that belongs to torch, else None."""
    name = node.get("reftarget", "")
    name = SHORT.get(name, name)
    if node.get("refdomain") != "py" or not name.startswith("torch."):
        return None
    page = PAGES.get(name, f"generated/{name}.html")
    link = nodes.reference("", "", refuri=f"{DOCS}/{page}#{name}", internal=False)
    link += contnode
    return link


def setup(app):
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
