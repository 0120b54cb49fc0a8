"""Several views of each image, made of one decode: Loader(views=…), and the text of it that goes to the daemon."""

import json

from . import _torchvision, transforms
from .errors import InvalidArgument
from .transforms import Operator, View

_MOST = 16


def to_json(pipeline, views):
    """The text for the daemon, of what a Loader was given as pipeline and as views."""
    if views is None:
        if isinstance(pipeline, View):
            pipeline = [pipeline]
        if not isinstance(pipeline, (list, tuple)) or not any(isinstance(part, View) for part in pipeline):
            return transforms.to_json(pipeline)
        pipeline, views = None, pipeline
    if hasattr(views, "__index__"):
        if pipeline is None:
            raise InvalidArgument("views is a number of views of one pipeline: give that, too")
        pipeline, views = None, [View(pipeline, views)]
    if isinstance(views, (str, dict, View)) or not hasattr(views, "__iter__"):
        raise InvalidArgument(f"views is {views!r}, and no list of pipelines, or how many views there are")
    program = {} if pipeline is None else {"steps": steps("pipeline", pipeline)}
    program["views"] = [_view(f"views[{place}]", view) for place, view in enumerate(views)]
    return json.dumps(program)


def _view(what, view):
    if not isinstance(view, View):
        view = View(view)
    if not 1 <= view.count <= _MOST:
        raise InvalidArgument(f"{what}: {view.count} views of one list, and a sample has 1 to {_MOST}")
    if isinstance(view.pipeline, (Operator, dict)) or view.pipeline is None:
        raise InvalidArgument(f"{what} is {view.pipeline!r}: a view is a list of operators, as a pipeline is")
    given = {"steps": steps(what, view.pipeline)}
    if view.count != 1:
        given["count"] = view.count
    return given if view.name is None else {"name": view.name, **given}


def steps(what, pipeline):
    """A list, as JSON has it: of operators, of JSON text, or of torchvision's transforms."""
    parts = pipeline if isinstance(pipeline, (list, tuple)) else [pipeline]
    try:
        if not all(isinstance(part, (Operator, View, str, dict, list, tuple, type)) for part in parts):
            pipeline = _torchvision.from_torchvision(pipeline)
        if any(isinstance(part, View) for part in pipeline):
            raise InvalidArgument("it makes several views itself")
        made = json.loads(transforms.to_json(pipeline))
    except InvalidArgument as error:
        raise InvalidArgument(f"{what}: {error}") from None
    except ValueError as error:
        raise InvalidArgument(f"{what} is no JSON: {error}") from None
    if not isinstance(made, list):
        raise InvalidArgument(f"{what} has views or parts itself")
    return made
