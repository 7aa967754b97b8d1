"""Draw book/_static/trials.svg: how the trials and their recipes learn.

``make notebooks`` runs this. What it draws are the curves of the files in results/.
"""

import matplotlib.pyplot as plt
from make_results import ROOT, finished, read

PICTURE = ROOT / "book" / "_static" / "trials.svg"
GREY = "#767676"  # legible on white and on black
PANELS = {
    "Multi30k": ("multi30k_en_de", "search/wide"),
    "Everyday sentences": ("tatoeba_en_de", "search/tatoeba_wide"),
}
"""For each text the recipe as it is, and how the names of its trials begin."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")


def draw() -> None:
    """Draw validation perplexity against target tokens."""
    results = read()
    colors = {f"{part}.color": GREY for part in ("text", "xtick", "ytick")}
    grey = {**colors, "axes.labelcolor": GREY, "axes.edgecolor": GREY}
    with plt.rc_context({**grey, "svg.hashsalt": "trials", "font.size": 11}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for ax, (title, (recipe, trials)) in zip(axes, PANELS.items(), strict=True):
            shown = [recipe, *(name for name in results if name.startswith(trials))]
            colored = zip(shown, COLORS[: len(shown)], strict=True)
            for order, (name, color) in enumerate(colored):
                for result in finished(results[name])[:1]:
                    curve = result["curve"]
                    tokens = [point["target_tokens"] / 1e6 for point in curve]
                    perplexity = [point["valid_perplexity"] for point in curve]
                    label = "the recipe" if name == recipe else name.split("/")[1]
                    # The longer trial has the shorter one as its beginning.
                    look = {"color": color, "label": label, "zorder": 3 - order / 10}
                    ax.plot(tokens, perplexity, **look)
            ax.set(title=title, xlabel="million target tokens", ylim=(4, 9))
            ax.legend(frameon=False)
            ax.grid(alpha=0.3)
        axes[0].set_ylabel("validation perplexity")
        metadata = {"Date": None, "Creator": None}
        figure.savefig(PICTURE, transparent=True, metadata=metadata)
    plt.close(figure)


if __name__ == "__main__":
    draw()
