#pragma once

#include <string_view>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/example/feature_description.h"
#include "millrace/formats/example/map_entries.h"
#include "millrace/formats/example/wanted_lists.h"

// What TensorFlow's own parser makes of a record. Not for users.
namespace millrace::wire {

/// Whether TensorFlow (`tf.io.parse_example`, tensorflow/core/util/example_proto_fast_parsing.cc) takes this Example
/// without an error and finds other values in one of the lists than `entries` hold, which are what the bytes mean as
/// protobuf. `record` must have been read without an error. Slow: for the few records in which something occurs that
/// the two readers treat differently. `pool`: for what is read. `different`: the list.
bool tensorflow_reads_otherwise(std::string_view record, const std::vector<FeatureDescription>& features,
                                const WantedLists& wanted, const WantedEntries& entries, BufferPool& pool,
                                size_t& different);

}  // namespace millrace::wire
