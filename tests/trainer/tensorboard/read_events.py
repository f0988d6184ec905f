"""Prints what TensorBoard's own readers find in a folder of event files, as one JSON object: its accumulator, whose
scalars its multiplexers must find too: that of programs, and that of `tensorboard --load_fast=false`.
usage: read_events.py FOLDER. Exit code 77: there is no tensorboard package."""
import json
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing import event_multiplexer, plugin_event_multiplexer
    from tensorboard.util import tensor_util
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0})
events.Reload()
tags = events.Tags()
programs = event_multiplexer.EventMultiplexer(size_guidance={"scalars": 0})
server = plugin_event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": 0})
for multiplexer in (programs, server):
    multiplexer.AddRun(sys.argv[1], "run")
    multiplexer.Reload()
for tag in tags["scalars"]:
    expected = [(e.step, e.value) for e in events.Scalars(tag)]
    assert [(e.step, e.value) for e in programs.Scalars("run", tag)] == expected, tag
    found = [(e.step, tensor_util.make_ndarray(e.tensor_proto).item()) for e in server.Tensors("run", tag)]
    assert found == expected, f"{tag}: {found}, {expected}"
print(json.dumps({
    "scalars": {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags["scalars"]},
    "histograms": {
        tag: [[e.step, e.histogram_value.min, e.histogram_value.max, e.histogram_value.num, e.histogram_value.sum,
               e.histogram_value.sum_squares, list(e.histogram_value.bucket_limit), list(e.histogram_value.bucket)]
              for e in events.Histograms(tag)] for tag in tags["histograms"]
    },
}))
