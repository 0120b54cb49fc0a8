"""c_source.py: what one C file includes, declares, defines and uses, as far as tests/lint/layers has to know it.

This is no compiler. It reads tokens: comments and strings are left out, the macros of the project's own files are
expanded, all branches of #if are read but those for C++. A function's definition is a name, parentheses and a block at
the outermost level; its declaration is the same with a semicolon for the block.
"""

import functools
import os
import re

COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|'
                   r'->|##|\.\.\.|\+\+|--|[-+*/%&|^]=|<<=|>>=|[=!<>]=|[^\s]')
DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*(\w+)((?:\\\n|[^\n])*)', re.M)
INCLUDE = re.compile(r'\s*(["<])([^">]+)[">]')
DEFINE = re.compile(r'\s*(\w+)(\(([^)]*)\))?(.*)', re.S)
FOR_CPLUSPLUS = re.compile(r'^[ \t]*#[ \t]*ifdef[ \t]+__cplusplus\b.*?^[ \t]*#[ \t]*endif[^\n]*', re.M | re.S)

STATEMENTS = {"return", "else", "case", "goto", "sizeof", "do", "_Alignof", "typeof"}
BEFORE_BLOCK = {"if", "for", "while", "switch"}
TAGS = {"struct", "union", "enum"}
KEYWORDS = STATEMENTS | BEFORE_BLOCK | TAGS | set(
    "auto break char const continue default double extern float inline int long register restrict short signed static "
    "typedef unsigned void volatile _Alignas _Atomic _Bool _Generic _Noreturn _Static_assert _Thread_local "
    "__attribute__ __asm__ __extension__ __typeof__ asm defined".split())
OF_A_VARIABLE = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--", "[", ".", "->"}


def is_name(token):
    return token[0].isalpha() or token[0] == "_"


def tokens_of(text, line):
    """(token, line) of all tokens; a string is '""'."""
    found, at = [], 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        token = match.group()
        found.append(('""' if token[0] in "\"'" else token, line))
    return found


def blank(match):
    return "\n" * match.group().count("\n") or " "


class Source:
    """One file as it stands: its includes, its macros and its tokens."""

    def __init__(self, root, path):
        self.path = path
        self.folder = os.path.dirname(path)
        self.includes = []  # (line, name, whether in quotes)
        self.macros = {}  # name: (parameters or None, tokens)
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        text = COMMENT_OR_STRING.sub(lambda match: blank(match) if match.group()[0] == "/" else match.group(), text)
        text = FOR_CPLUSPLUS.sub(blank, text)
        self.text = DIRECTIVE.sub(lambda match: self.directive(text, match), text)

    @functools.cached_property
    def tokens(self):
        return tokens_of(self.text, 1)

    def directive(self, text, match):
        kind, rest = match.groups()
        rest = rest.replace("\\\n", " \n")
        if kind == "include" and INCLUDE.match(rest):
            quote, name = INCLUDE.match(rest).groups()
            self.includes.append((text.count("\n", 0, match.start()) + 1, name, quote == '"'))
        elif kind == "define":
            name, has_parameters, parameters, body = DEFINE.match(rest).groups()
            names = [part.strip() for part in parameters.split(",")] if has_parameters else None
            self.macros[name] = (names, tokens_of(body, 0))
        return "\n" * match.group().count("\n")


# ── macros ──

def arguments_at(tokens, at):
    """The arguments whose ( stands at `at`, and the place behind their )."""
    parts, depth = [[]], 0
    for i in range(at, len(tokens)):
        token = tokens[i][0]
        depth += (token in "([{") - (token in ")]}")
        if depth == 0:
            return parts, i + 1
        if token == "," and depth == 1:
            parts.append([])
        elif i > at:
            parts[-1].append(tokens[i])
    return parts, len(tokens)


def filled(macro, arguments):
    """A macro's tokens with its arguments in their places, and what ## joins joined."""
    names, body = macro
    given = dict(zip(names or [], arguments))
    if names and names[-1] == "...":
        given["__VA_ARGS__"] = [token for part in arguments[len(names) - 1:] for token in part + [(",", 0)]][:-1]
    out, joins = [], False
    for token in body:
        if token[0] == "##":
            joins = True
            continue
        tokens = given.get(token[0], [token])
        if joins and out and tokens and is_name(out[-1][0]):
            out[-1] = (out[-1][0] + tokens[0][0], 0)
            tokens = tokens[1:]
        out += tokens
        joins = False
    return out


def expanded(tokens, macros, hidden=frozenset()):
    out, i = [], 0
    while i < len(tokens):
        token, line = tokens[i]
        macro = macros.get(token) if token not in hidden else None
        i += 1
        if macro is None or (macro[0] is not None and (i == len(tokens) or tokens[i][0] != "(")):
            out.append((token, line))
            continue
        arguments = []
        if macro[0] is not None:
            arguments, i = arguments_at(tokens, i)
        body = [(token, line) for token, _ in filled(macro, arguments)]
        out += expanded(body, macros, hidden | {token})
    return out


# ── declarations, definitions and uses ──

def parts_of(tokens):
    """What stands at the outermost level, one after the other: (tokens, whether they are a function with its body)."""
    part, depth, body = [], 0, False
    for i, (token, line) in enumerate(tokens):
        if token == "{" and depth == 0:
            body = i > 0 and tokens[i - 1][0] == ")"
        depth += (token in "([{") - (token in ")]}")
        part.append((token, line))
        if depth == 0 and (token == ";" or token == "}" and body):
            yield part, body
            part, body = [], False
    if depth:
        raise ValueError("its brackets do not match")
    if part:
        yield part, False


def function_at(part):
    """The place of the function's name in a declaration or definition; None: it is something else."""
    depth = 0
    for i, (token, _) in enumerate(part[:-2]):
        if depth == 0 and token in ("=", "{", "typedef"):
            return None
        if (depth == 0 and i > 0 and is_name(token) and token not in KEYWORDS and part[i + 1][0] == "("
                and part[i + 2][0] != "*" and (is_name(part[i - 1][0]) or part[i - 1][0] == "*")):
            return i
        depth += (token in "([{") - (token in ")]}")
    return None


def begins_block(part, i):
    """Whether the { at i begins a block, not a list of values."""
    before = part[i - 1][0]
    if before != ")":
        return before in ";{}:" or before in ("else", "do")
    depth = 0
    while i > 0:
        i -= 1
        depth += (part[i][0] == ")") - (part[i][0] == "(")
        if depth == 0:
            break
    word = part[i - 1][0]
    return is_name(word) and (word in BEFORE_BLOCK or word not in KEYWORDS) or i == 0


def uses_in(part, own):
    """(line, name, whether called) of the names that may be functions: all but fields, tags and what is declared in the
    part itself. own: the place of the name of the function that the part is; None: it is none."""
    local, opened = set(), []
    for i, (token, line) in enumerate(part):
        if token in "([{":
            block = token == "{" and "list" not in opened and begins_block(part, i)
            opened.append("block" if block else "list" if token == "{" else token)
        elif token in ")]}":
            opened.pop()
        if not is_name(token) or token in KEYWORDS or i == own:
            continue
        before, after = part[i - 1][0] if i else ";", part[i + 1][0] if i + 1 < len(part) else ";"
        if before in (".", "->") or before in TAGS or token in local:
            continue
        listed = before == "," and (not opened or opened[-1] == "block")
        declared = is_name(before) and before not in STATEMENTS or before == "*" or listed or after in OF_A_VARIABLE
        if after != "(" and declared:
            local.add(token)
        else:
            yield line, token, after == "(" and own is not None


class Functions:
    """The functions of one file, its own and the project's other files' macros expanded."""

    def __init__(self, source, macros):
        self.defined = {}  # name: (line, whether static)
        self.declared = {}  # name: line; not static ones
        self.uses = []  # (line, name, whether called)
        for part, body in parts_of(expanded(source.tokens, macros)):
            at = function_at(part)
            static = any(token == "static" for token, _ in part[:at or 0])
            if at is not None and body:
                self.defined[part[at][0]] = (part[at][1], static)
            elif at is not None and not static:
                self.declared[part[at][0]] = part[at][1]
            if body or at is None:
                self.uses += uses_in(part, at)
