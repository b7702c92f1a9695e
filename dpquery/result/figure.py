"""The figure that `answer.plot()` returns; imported only where matplotlib is installed."""

from __future__ import annotations

from typing import NoReturn

from matplotlib import pyplot
from matplotlib.figure import Figure


class AnswerFigure(Figure):
    """A figure that a notebook draws once.

    When a cell has run, matplotlib's inline backend draws every figure that is open. Before that, IPython draws the
    value of the cell's last line. So a figure that IPython draws is closed.
    """

    def _ipython_display_(self) -> NoReturn:
        """Closes the figure if the inline backend is in use; NotImplementedError tells IPython to draw it as usual."""
        if "inline" in pyplot.get_backend():
            pyplot.close(self)
        raise NotImplementedError
