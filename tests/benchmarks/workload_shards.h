#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "millrace/formats/compression/compression.h"

namespace millrace::test {

/// A record as the workloads `mlm`, `quest`, `bucket` and `pad`, `images`, and `jpeg` and `jpeg_scaled` read them;
/// another one for each number, those of tokens of another length, those of images of 3.3 MB, pictures of many sizes,
/// few of them large, grey and of all samplings.
std::string mlm_record(int number);
std::string quest_record(int number);
std::string tokens_record(int number);
std::string images_record(int number);
std::string jpeg_record(int number);
/// A picture as those have it.
std::string picture_record(std::string_view encoded, int number);

/// Records in all shards that `write_workload_shards` writes, if nothing is said.
constexpr int kWorkloadRecords = 3500;

/// Writes five shards *.tfrecord into a folder, with a fifth of the records each.
void write_workload_shards(const std::string& folder, const std::function<std::string(int)>& record,
                           Compression compression = Compression::kNone, int num_records = kWorkloadRecords);

/// Writes the index of each shard that matches `pattern`.
void index_workload_shards(const std::string& pattern);

}  // namespace millrace::test
