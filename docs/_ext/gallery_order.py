"""The order of the gallery: from what everybody needs to what few do."""

ORDER = (
    *(
        "texts",
        "choose_theta",
        "low_rank_gain",
        "tail_and_trace",
        "many_targets",
        "thresholds",
        "unknown_labels",
    ),
    *("kernel", "spectrum", "own_penalty", "completion", "blocks", "cluster", "theory"),
)


class Order:
    """The sort key that sphinx-gallery asks for."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, filename):
        """Return the place of an example."""
        return ORDER.index(filename.removeprefix("plot_").removesuffix(".py"))

    def __repr__(self):
        return "<Order>"
