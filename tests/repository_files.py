"""What the checks of files have in common: their command line, and the files of the repository, tracked or new."""
import os
import subprocess
import sys


def root_of(arguments, text):
    """The folder that a check was given, or the repository's; prints `text` and exits where help was asked for."""
    if arguments and arguments[0] in ('-h', '--help'):
        print(text.strip())
        sys.exit(0)
    return arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')


def texts(root, *patterns):
    """Path below `root` and text of each file that is there and matches one of Git's patterns, by path."""
    listed = subprocess.run(['git', '-C', root, 'ls-files', '--cached', '--others', '--exclude-standard', '-z', '--',
                             *patterns], check=True, capture_output=True).stdout
    found = {}
    for path in map(os.fsdecode, filter(None, listed.split(b'\0'))):
        if os.path.exists(os.path.join(root, path)):
            with open(os.path.join(root, path), encoding='utf-8') as file:
                found[path] = file.read()
    return found


def print_faults(found, faults_of):
    """Prints what `faults_of(path, text)` yields of each file as FILE:LINE: what. Returns how many there were."""
    count = 0
    for path, text in found.items():
        for number, message in faults_of(path, text):
            print(f'{path}:{number}: {message}')
            count += 1
    return count
