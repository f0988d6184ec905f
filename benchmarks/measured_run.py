"""What the scripts that measure have in common: progress, programs that are run, options that have to be above 0."""
import subprocess
import sys


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command):
    """What the program printed. The script ends where it fails."""
    words = [str(word) for word in command]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(words)} failed with {result.returncode}:\n{result.stderr}")
    return result.stdout


def require_counts(parser, options, *names):
    """Ends with a message where one of these options is below 1, or --seconds is not above 0."""
    for name in names:
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}, must be at least 1")
    if not options.seconds > 0:
        parser.error(f"--seconds is {options.seconds:g}, must be above 0")
