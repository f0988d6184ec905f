"""Prints what TensorBoard's own reader finds in a folder of event files, as one JSON object.
usage: read_events.py FOLDER. Exit code 77: there is no tensorboard package."""
import json
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0})
events.Reload()
tags = events.Tags()
print(json.dumps({
    "scalars": {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags["scalars"]},
    "histograms": {
        tag: [[e.step, e.histogram_value.min, e.histogram_value.max, e.histogram_value.num, e.histogram_value.sum,
               e.histogram_value.sum_squares, list(e.histogram_value.bucket_limit), list(e.histogram_value.bucket)]
              for e in events.Histograms(tag)] for tag in tags["histograms"]
    },
}))
