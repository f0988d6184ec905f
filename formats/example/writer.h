#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// Writes serialized `tensorflow.Example` messages, without a message object in between.
///
///     ExampleWriter writer;
///     writer.add("input_ids", std::span<const int64_t>(ids));
///     writer.add("attention_mask", std::span<const int64_t>(mask));
///     std::string record = writer.finish();      // the writer is empty again
///
/// The bytes are those of protobuf's deterministic serialization: features in order of their keys, numbers packed.
/// Not thread safe; one writer serves any number of records and keeps its memory.
class ExampleWriter {
 public:
  /// Adds one feature. Throws `kInvalidArgument` for a key that is there already or is not UTF-8.
  void add(std::string_view key, std::span<const int64_t> values);
  void add(std::string_view key, std::span<const float> values);
  void add(std::string_view key, std::span<const std::string_view> values);
  /// Stored as int64: records know no other integers.
  void add(std::string_view key, std::span<const int32_t> values);

  /// The message with all features added since the last call. Throws `kInvalidArgument` from 2 GiB on, which no
  /// protobuf reader takes.
  [[nodiscard]] std::string finish();

 private:
  struct Entry {
    std::string key;
    size_t begin;  // of the feature's map entry in entries_
    size_t end;
  };

  template <typename Integer>
  void add_integers(std::string_view key, std::span<const Integer> values);
  // Everything before the values: map entry, key, feature, and the list that takes `list_bytes`.
  void begin_entry(std::string_view key, uint32_t kind, size_t list_bytes);

  std::string entries_;
  std::vector<Entry> order_;
};

}  // namespace millrace
