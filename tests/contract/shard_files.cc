#include "tests/contract/shard_files.h"

#include <array>

#include <fmt/format.h>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/support/example_messages.h"

namespace millrace::test {
namespace {

// A TensorProto.
std::string two_floats(float a, float b) {
  std::string bytes("\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08", 10);
  for (const float value : {a, b}) bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return bytes;
}

// What makes a SequenceExample of an Example: the feature list `steps`.
std::string feature_lists(const std::vector<std::vector<int64_t>>& steps) {
  example::SequenceExample message;
  auto& list = (*message.mutable_feature_lists()->mutable_feature_list())["steps"];
  for (const std::vector<int64_t>& step : steps) {
    list.add_feature()->mutable_int64_list()->mutable_value()->Assign(step.begin(), step.end());
  }
  return message.SerializeAsString();
}

}  // namespace

const ShardFiles& ShardFiles::get() {
  static const ShardFiles files;
  return files;
}

ShardFiles::ShardFiles() {
  constexpr std::array<int64_t, 6> kCounts{9, 14, 0, 21, 3, 11};
  for (size_t i = 0; i < kCounts.size(); ++i) write(fmt::format("plain-{}", i), Compression::kNone, kCounts[i]);
  for (size_t i = 0; i < 4; ++i) {
    write(fmt::format("zlib-{}", i), Compression::kZlib, kCounts[i]);
    write(fmt::format("gzip-{}", i), Compression::kGzip, kCounts[i]);
  }
  write("odd-0", Compression::kNone, 17);
  write("odd-1", Compression::kGzip, 12);
  write("damaged-0", Compression::kNone, 15);
  write("damaged-1", Compression::kNone, 9);
  write("long-0", Compression::kNone, kLongShard);
  write("long-1", Compression::kGzip, kLongShard);
  constexpr std::array<int64_t, 5> kIndexed{12, 0, 1, 21, kLongShard};
  for (size_t i = 0; i < kIndexed.size(); ++i) write(fmt::format("indexed-{}", i), Compression::kNone, kIndexed[i]);
  write("indexed-5", Compression::kZstd, 19);
  for (size_t i = 0; i < 4; ++i) write(fmt::format("zstd-{}", i), Compression::kZstd, kCounts[i]);
}

void ShardFiles::write(const std::string& name, Compression compression, int64_t num_records) {
  const bool odd = name.starts_with("odd");
  const bool damaged = name.starts_with("damaged") || name == "indexed-3";
  std::vector<ModelElement>& elements = records_[name];
  std::vector<size_t> flipped;  // places of payloads in the file
  size_t offset = 0;
  RecordWriter writer(path(name), {.compression = compression, .frame_bytes = 1500});
  for (int64_t r = 0; r < num_records; ++r) {
    ExampleModel example;
    example.id = static_cast<int64_t>(records_.size()) * 100 + r;
    for (int64_t p = 0; p < kTokens; ++p) {
      example.tokens.push_back(p == 0 ? 1 : (example.id * 7 + p * 13) % 50);
      example.mask.push_back(p < 3 + r % 4 ? 1 : 0);
    }
    if (!odd || r % 4 != 1) example.weight = static_cast<float>(r) * 0.25F;
    example.name = fmt::format("{}#{}", name, r);
    // Longer than a chunk of a file and than a block, all of them together.
    if (num_records == kLongShard) example.name.resize(300, static_cast<char>('a' + r % 26));
    for (int64_t i = 0; i < r % 4; ++i) example.words.push_back(fmt::format("w{}", example.id + i));
    example.cuts = {r % 3, 0, kTokens - r % 3};
    for (int64_t i = 0; i < 2 * (r % 3); ++i) example.pairs.push_back(example.id - i);
    for (int64_t i = 0; i < 2 * (1 + r % 3); ++i) example.pixels += static_cast<char>(example.id * 3 + i);
    if (odd && r % 6 == 0) example.pixels += 'x';
    example.tensor = two_floats(static_cast<float>(r), -0.5F);
    if (odd && r % 6 == 4) example.tensor.pop_back();
    for (int64_t i = 0; i < (r + 1) % 3; ++i) {
      example.steps.emplace_back(static_cast<size_t>(2 - i), example.id + i);
    }
    example.is_text = odd && r % 5 == 3;
    std::string record = "this is text " + example.name;
    if (!example.is_text) {
      ExampleWriter bytes;
      const std::string_view text = example.name;
      bytes.add("id", std::span<const int64_t>(&example.id, 1));
      bytes.add("tokens", std::span<const int64_t>(example.tokens));
      bytes.add("mask", std::span<const int64_t>(example.mask));
      if (example.weight) bytes.add("weight", std::span<const float>(&*example.weight, 1));
      bytes.add("name", std::span<const std::string_view>(&text, 1));
      std::vector<std::string_view> words(example.words.begin(), example.words.end());
      const std::string_view pixels = example.pixels;
      const std::string_view tensor = example.tensor;
      bytes.add("words", std::span<const std::string_view>(words));
      bytes.add("cuts", std::span<const int64_t>(example.cuts));
      bytes.add("pairs", std::span<const int64_t>(example.pairs));
      bytes.add("pixels", std::span<const std::string_view>(&pixels, 1));
      bytes.add("tensor", std::span<const std::string_view>(&tensor, 1));
      record = bytes.finish() + feature_lists(example.steps);
    }
    writer.write(record);
    ModelElement& element = elements.emplace_back();
    if (damaged && r % 6 == 4) {
      flipped.push_back(offset + 12);  // after the length and its CRC
      element.fail(ErrorCode::kPayloadCrc);
    } else {
      element.values = {bytes({}, {record})};
      examples_.emplace(record, std::move(example));
    }
    offset += record.size() + 16;
  }
  writer.close();
  if (name.starts_with("indexed")) {
    InlineExecutor executor;
    LocalStorage storage(executor);
    write_atomically(index_path(path(name)), build_shard_index(storage, path(name)).serialize());
  }
  if (flipped.empty()) return;
  std::string content = read_file(path(name));
  for (const size_t place : flipped) content[place] = static_cast<char>(content[place] ^ 0x20);
  write_file(path(name), content);
}

Shards shards(const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  paths.reserve(names.size());
  for (const std::string& name : names) paths.push_back(ShardFiles::get().path(name));
  return Shards::files(std::move(paths));
}

}  // namespace millrace::test
