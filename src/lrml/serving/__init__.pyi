from ._app import make_app
from ._server import run_app

__all__ = ["make_app", "run_app"]
