#include "tests/benchmarks/workload_shards.h"

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/benchmarks/image_message.h"

namespace millrace::test {
namespace {

constexpr int kShards = 5;

void add_ints(ExampleWriter& example, const char* feature, int count, int seed) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = (i * 7919 + seed * 31) % 25000;
  example.add(feature, std::span<const int64_t>(values));
}

}  // namespace

std::string mlm_record(int number) {
  ExampleWriter example;
  add_ints(example, "input_ids", 512, number);
  const std::vector<int64_t> mask(512, 1);
  example.add("attention_mask", std::span<const int64_t>(mask));
  return std::string(example.finish());
}

std::string quest_record(int number) {
  ExampleWriter example;
  add_ints(example, "input_ids_question", 416, number);
  add_ints(example, "input_mask_question", 416, number + 1);
  add_ints(example, "input_ids_answer", 480, number + 2);
  add_ints(example, "input_mask_answer", 480, number + 3);
  const std::vector<float> labels(30, static_cast<float>(number));
  example.add("labels", std::span<const float>(labels));
  return std::string(example.finish());
}

std::string tokens_record(int number) {
  ExampleWriter example;
  add_ints(example, "tokens", 1 + number * 131 % 700, number);
  add_ints(example, "label", 1, number);
  return std::string(example.finish());
}

std::string images_record(int number) {
  const std::string low = image_message(128, static_cast<float>(number));
  const std::string high = image_message(512, static_cast<float>(-number));
  ExampleWriter example;
  example.add("low_res_image", std::array<std::string_view, 1>{low});
  example.add("high_res_image", std::array<std::string_view, 1>{high});
  return std::string(example.finish());
}

void write_workload_shards(const std::string& folder, const std::function<std::string(int)>& record,
                           Compression compression, int num_records) {
  for (int shard = 0; shard < kShards; ++shard) {
    RecordWriter writer(fmt::format("{}/{}.tfrecord", folder, shard), {.compression = compression});
    for (int r = 0; r < num_records / kShards; ++r) writer.write(record(shard * num_records / kShards + r));
    writer.close();
  }
}

void index_workload_shards(const std::string& pattern) {
  InlineExecutor executor;
  LocalStorage storage(executor);
  const Shards shards = Shards::glob(pattern);
  for (const Shard& shard : shards.list()) {
    write_atomically(index_path(shard.path), build_shard_index(storage, shard.path).serialize());
  }
}

}  // namespace millrace::test
