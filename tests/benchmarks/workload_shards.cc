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
#include "tests/support/encoded_pictures.h"

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

std::string jpeg_record(int number) {
  const bool is_large = number % 10 == 3;
  const bool is_one_pixel = number % 10 == 6;
  const int height = is_large ? 520 + number : is_one_pixel ? 1 : 30 + 7 * number;
  const int width = is_large ? 600 - number : is_one_pixel ? 1 : 150 - 3 * number;
  const int channels = number % 7 == 5 ? 1 : 3;
  // 4:4:4, 4:2:2, 4:4:0, 4:2:0.
  return picture_record(written_jpeg(drawn_picture(height, width, channels, static_cast<unsigned>(number)),
                                     {.horizontal_sampling = channels == 1 ? 1 : 1 + number % 2,
                                      .vertical_sampling = channels == 1 ? 1 : 1 + number / 2 % 2,
                                      .progressive = number % 5 == 4}),
                        number);
}

std::string picture_record(std::string_view encoded, int number) {
  ExampleWriter example;
  example.add("image/encoded", std::array<std::string_view, 1>{encoded});
  example.add("image/class/label", std::array<int64_t, 1>{number});
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
