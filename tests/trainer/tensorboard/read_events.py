"""Prints what TensorBoard's own readers find in a folder of event files, as one JSON object: its accumulator, whose
scalars the multiplexer, which `tensorboard --load_fast=false` uses, must find too.
usage: read_events.py FOLDER. Exit code 77: there is no tensorboard package."""
import json
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0})
events.Reload()
tags = events.Tags()
multiplexer = EventMultiplexer(size_guidance={"scalars": 0})
multiplexer.AddRun(sys.argv[1], "run")
multiplexer.Reload()
for tag in tags["scalars"]:
    assert [(e.step, e.value) for e in multiplexer.Scalars("run", tag)] == \
        [(e.step, e.value) for e in events.Scalars(tag)], tag
print(json.dumps({
    "scalars": {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags["scalars"]},
    "histograms": {
        tag: [[e.step, e.histogram_value.min, e.histogram_value.max, e.histogram_value.num, e.histogram_value.sum,
               e.histogram_value.sum_squares, list(e.histogram_value.bucket_limit), list(e.histogram_value.bucket)]
              for e in events.Histograms(tag)] for tag in tags["histograms"]
    },
}))
