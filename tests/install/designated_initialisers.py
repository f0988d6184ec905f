#!/usr/bin/env python3
"""Prints a source that makes each struct of the installed headers with its first member named and no other.

usage: designated_initialisers.py INCLUDE_FOLDER

Compiled with -Wextra it says which members have no initializer of their own: a user who names others is warned.
"""
import pathlib
import re
import sys

STRUCT = re.compile(r'^(template <.*>\n)?struct (\w+) \{\n(.*?)^\};', re.MULTILINE | re.DOTALL)
NO_MEMBER = re.compile(r'(using|static|friend|struct|class|enum|template|explicit|constexpr|auto|~)\b')


def statements(body):
    """The body without what is in brackets of any kind, cut at semicolons and at the end of functions."""
    body = re.sub(r'//.*', '', body)
    body = re.sub(r'= \{[^{}]*\}', '= 0', body)  # else a struct within keeps its brackets
    while (without := re.sub(r'\{[^{}]*\}', '{}', re.sub(r'<[^<>]*>', '', body))) != body:
        body = without
        if not re.search(r'\{[^{}]+\}|<[^<>]*>', body):
            break
    return re.split(r';|\}\s*\n(?=\s*\S)', body)


def first_member(body):
    for statement in map(str.strip, statements(body)):
        member = re.fullmatch(r'[\w:*& ]+[ *&](\w+)( = .*)?', statement, re.DOTALL)
        if member and not NO_MEMBER.match(statement):
            return member[1]
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    includes, checks = ['#include <type_traits>'], []
    for header in sorted(root.glob('millrace/**/*.h')):
        text = header.read_text()
        namespace = re.search(r'^namespace ([\w:]+) \{', text, re.MULTILINE)
        for struct in STRUCT.finditer(text):
            template, struct_name, body = struct.groups()
            member = first_member(body)
            if not member or template not in (None, 'template <typename T>\n'):
                continue
            arguments = '<float>' if template else ''
            includes.append(f'#include "{header.relative_to(root)}"')
            name = f'check_{len(checks)}'
            checks.append(f'template <typename T>\nvoid {name}() {{\n'
                          '  if constexpr (std::is_aggregate_v<T> && std::is_default_constructible_v<T>) {\n'
                          f'    [[maybe_unused]] const T value = {{.{member} = {{}}}};\n  }}\n}}\n'
                          f'template void {name}<{namespace[1]}::{struct_name}{arguments}>();')
    if len(checks) < 100:
        sys.exit(f'found {len(checks)} structs only')
    print('\n'.join(dict.fromkeys(includes)), '\n'.join(checks), sep='\n')


if __name__ == '__main__':
    main()
