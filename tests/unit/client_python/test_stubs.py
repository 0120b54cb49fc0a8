"""The stubs (.pyi) say what the code has: the same names, bases, arguments and defaults."""

import ast
import builtins
import importlib
import inspect
import os
import unittest

from support import PACKAGE, Case, larder, main
from larder._device import DeviceLoader

FOLDER = os.path.join(PACKAGE, "larder")
STUBS = sorted(name[:-len(".pyi")] for name in os.listdir(FOLDER) if name.endswith(".pyi"))
MODULES = [name for name in STUBS if name != "__init__"]


def parsed(module):
    with open(os.path.join(FOLDER, module + ".pyi"), encoding="utf-8") as file:
        return ast.parse(file.read())


def of_kind(nodes, kind):
    """The public ones, by name: those whose names begin with _ are the stub's own."""
    return {node.name: node for node in nodes if isinstance(node, kind) and not node.name.startswith("_")}


def code_of(module):
    return importlib.import_module(f"larder.{module}")


def stubbed_classes():
    """Name of each: (its node in a stub, the class)."""
    return {name: (node, getattr(code_of(module), name)) for module in MODULES
            for name, node in of_kind(parsed(module).body, ast.ClassDef).items()}


def name_of_base(node):
    return ast.unparse(node.value if isinstance(node, ast.Subscript) else node)


def members(node):
    """What a stub says of a class: names of attributes, and its functions."""
    functions = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    attributes = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
    return attributes, {item.name: item for item in functions}


def is_property(function):
    return [ast.unparse(decorator) for decorator in function.decorator_list] == ["property"]


def arguments_of(function):
    """(name, kind, default) of each argument in a stub; defaults are plain values."""
    given = function.args
    leading = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(leading) - len(given.defaults)) + given.defaults
    found = [(item.arg, "plain", default) for item, default in zip(leading, defaults)]
    if given.vararg:
        found.append((given.vararg.arg, "*", None))
    found += [(item.arg, "named", default) for item, default in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg:
        found.append((given.kwarg.arg, "**", None))
    return [(name, kind, "needed" if default is None else ast.literal_eval(default))
            for name, kind, default in found]


KINDS = {inspect.Parameter.POSITIONAL_ONLY: "plain", inspect.Parameter.POSITIONAL_OR_KEYWORD: "plain",
         inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.KEYWORD_ONLY: "named",
         inspect.Parameter.VAR_KEYWORD: "**"}


def arguments_in_code(function):
    return [(item.name, KINDS[item.kind], "needed" if item.default is item.empty else item.default)
            for item in inspect.signature(function).parameters.values()]


def kinds_of(annotation):
    """The types that an annotation like `dict[str, float] | None` allows."""
    if isinstance(annotation, ast.BinOp):
        return kinds_of(annotation.left) | kinds_of(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return kinds_of(annotation.value)
    return {type(None) if isinstance(annotation, ast.Constant) else getattr(builtins, annotation.id)}


class Stubs(Case):
    def instances(self):
        """One of each public class."""
        self.daemon()
        loader = self.loader()
        self.addCleanup(loader.close)
        made = {"Loader": loader, "Epoch": iter(loader), "Batch": larder.Batch((), None), "Subset": larder.Subset({}),
                "Range": larder.Range(0, 1), "Fraction": larder.Fraction(0.5), "List": larder.List("x"),
                "Classes": larder.Classes("x"), "Indices": larder.Indices([0]), "Dataset": loader.dataset,
                "Sampler": loader.sampler, "BatchSampler": loader.batch_sampler,
                "DeviceLoader": DeviceLoader.__new__(DeviceLoader), "Operator": larder.Operator(),
                "View": larder.View([]),
                "Weights": larder.Weights([1.0]), "Balanced": larder.Balanced(),
                "Parts": larder.Parts(loader, 2), "Mix": larder.Mix({"a": (self.loader(), 1)})}
        self.addCleanup(made["Mix"].close)
        for name, (_, kind) in stubbed_classes().items():
            if issubclass(kind, BaseException):
                made[name] = kind("")
            elif name in ("Boxes", "Image", "InstanceMasks", "Labels", "Mask", "Points"):
                made[name] = getattr(larder, name)("images/*.png")
            elif name == "OnBatch":
                made[name] = kind(len)
            elif name == "Writer":
                made[name] = kind(os.path.join(self.folder, "written"))
                self.addCleanup(made[name].close)
            elif name == "Rest":
                made[name] = kind([], "", False)
            elif issubclass(kind, larder.Operator):
                made.setdefault(name, kind(*[1] * len(kind.required)))
        return made

    def test_all_that_is_public_has_a_stub(self):
        """The package's stub has the names of the package's __all__; each class and function is in the stub of the
        module that it is in."""
        tree = parsed("__init__")
        exported = [node.value for node in tree.body if isinstance(node, ast.Assign)]
        self.assertEqual(sorted(ast.literal_eval(exported[0])), sorted(larder.__all__))
        imported = [name.asname for node in tree.body if isinstance(node, ast.ImportFrom) and node.module
                    for name in node.names]
        self.assertEqual(sorted(imported), sorted(larder.__all__))
        for name in set(larder.__all__) - {"__version__"}:
            thing = getattr(larder, name)
            stub = parsed(thing.__module__.rpartition(".")[2])
            self.assertIn(name, of_kind(stub.body, (ast.ClassDef, ast.FunctionDef)))
        self.assertTrue(os.path.exists(os.path.join(FOLDER, "py.typed")))

    def test_functions_are_the_codes(self):
        for module in MODULES:
            for name, node in of_kind(parsed(module).body, ast.FunctionDef).items():
                self.assertEqual(arguments_of(node), arguments_in_code(getattr(code_of(module), name)), name)

    def test_classes_are_the_codes(self):
        """Bases, public names, and what each is: a property, or a function with these arguments."""
        known = stubbed_classes()
        for name, thing in self.instances().items():
            node, kind = known.pop(name)
            bases = [name_of_base(base) for base in node.bases] or ["object"]
            self.assertEqual(bases, [base.__name__ for base in kind.__bases__], name)
            said = set()
            for base in kind.__mro__:
                if base.__module__ != "builtins":
                    attributes, functions = members(stubbed_classes()[base.__name__][0])
                    said |= attributes | functions.keys()
            others = {word for base in kind.__mro__ if base.__module__ == "builtins" for word in dir(base)}
            public = {word for word in dir(thing) if not word.startswith("_")} - others
            self.assertEqual(sorted(word for word in said if not word.startswith("_")), sorted(public), name)
            for word, function in members(node)[1].items():
                with self.subTest(name=name, member=word):
                    self.check_member(kind, word, function)
        self.assertEqual(known, {}, "classes without an instance in this test")

    def check_member(self, kind, word, function):
        self.assertTrue(hasattr(kind, word))
        self.assertEqual(is_property(function), isinstance(inspect.getattr_static(kind, word), property))
        if is_property(function):
            return
        if word in ("__init__", "__new__"):  # an operator's class says what it takes
            self.assertEqual(arguments_of(function)[1:], arguments_in_code(kind))
        elif word == "__exit__":  # the stub names what Python gives
            self.assertEqual(len(function.args.posonlyargs), 4)
        else:
            self.assertEqual(arguments_of(function), arguments_in_code(getattr(kind, word)))

    def test_stats(self):
        """stats() gives the keys, and the kinds of values, that the stub names."""
        self.daemon()
        with self.loader() as loader:
            stats = loader.stats()
        shape, = (node for node in parsed("loader").body if getattr(node, "name", "") == "_Stats")
        said = {item.target.id: kinds_of(item.annotation) for item in shape.body}
        self.assertEqual(said.keys(), stats.keys())
        for key, value in stats.items():
            self.assertIn(type(value), said[key], key)

    def test_a_package_has_them(self):
        """What is installed has the stubs, and the mark that says so."""
        try:
            import tomllib
        except ImportError:
            raise unittest.SkipTest("this Python has no tomllib (3.11)") from None
        with open(os.path.join(PACKAGE, "pyproject.toml"), "rb") as file:
            project = tomllib.load(file)
        self.assertEqual(project["tool"]["setuptools"]["package-data"], {"larder": ["py.typed", "*.pyi"]})


if __name__ == "__main__":
    main()
