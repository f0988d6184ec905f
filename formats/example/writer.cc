#include "millrace/formats/example/writer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/example/wire.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using wire::append_varint;
using wire::put_varint;
using wire::varint_size;

// Field tags: every message on the way has only fields of wire type 2, length and bytes.
constexpr char kField1 = 1 << 3 | 2;
constexpr char kField2 = 2 << 3 | 2;

// The fields of Feature.
constexpr uint32_t kBytesList = 1;
constexpr uint32_t kFloatList = 2;
constexpr uint32_t kInt64List = 3;

constexpr size_t delimited_size(size_t bytes) { return 1 + varint_size(bytes) + bytes; }

}  // namespace

void ExampleWriter::begin_entry(std::string_view key, uint32_t kind, size_t list_bytes) {
  if (!is_valid_utf8(key)) {
    throw ErrorException(ErrorCode::kInvalidArgument, "a feature's key is not UTF-8");
  }
  for (const Entry& entry : order_) {
    if (entry.key == key) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("feature '{}' is added twice", key));
    }
  }
  const size_t begin = entries_.size();
  const size_t feature_bytes = delimited_size(list_bytes);
  entries_ += kField1;
  append_varint(entries_, delimited_size(key.size()) + delimited_size(feature_bytes));
  entries_ += kField1;
  append_varint(entries_, key.size());
  entries_ += key;
  entries_ += kField2;
  append_varint(entries_, feature_bytes);
  entries_ += static_cast<char>(kind << 3 | 2);
  append_varint(entries_, list_bytes);
  order_.push_back({std::string(key), begin, entries_.size() + list_bytes});
}

template <typename Integer>
void ExampleWriter::add_integers(std::string_view key, std::span<const Integer> values) {
  // Negative int32 are sign-extended first: 10 bytes, as in every protobuf.
  const auto bits = [](Integer value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); };
  size_t packed_bytes = 0;
  for (const Integer value : values) packed_bytes += varint_size(bits(value));
  begin_entry(key, kInt64List, values.empty() ? 0 : delimited_size(packed_bytes));
  if (values.empty()) return;
  entries_ += kField1;
  append_varint(entries_, packed_bytes);
  const size_t begin = entries_.size();
  entries_.resize(begin + packed_bytes);
  char* at = entries_.data() + begin;
  for (const Integer value : values) at = put_varint(bits(value), at);
}

void ExampleWriter::add(std::string_view key, std::span<const int64_t> values) { add_integers(key, values); }

void ExampleWriter::add(std::string_view key, std::span<const int32_t> values) { add_integers(key, values); }

void ExampleWriter::add(std::string_view key, std::span<const float> values) {
  static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");
  begin_entry(key, kFloatList, values.empty() ? 0 : delimited_size(values.size_bytes()));
  if (values.empty()) return;
  entries_ += kField1;
  append_varint(entries_, values.size_bytes());
  entries_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void ExampleWriter::add(std::string_view key, std::span<const std::string_view> values) {
  size_t list_bytes = 0;
  for (const std::string_view value : values) list_bytes += delimited_size(value.size());
  begin_entry(key, kBytesList, list_bytes);
  for (const std::string_view value : values) {
    entries_ += kField1;
    append_varint(entries_, value.size());
    entries_ += value;
  }
}

std::string ExampleWriter::finish() {
  constexpr size_t kLargestMessage = INT32_MAX;
  std::sort(order_.begin(), order_.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
  std::string record;
  const bool too_large = delimited_size(entries_.size()) > kLargestMessage;
  if (!too_large && !order_.empty()) {
    record.reserve(delimited_size(entries_.size()));
    record += kField1;
    append_varint(record, entries_.size());
    for (const Entry& entry : order_) record.append(entries_, entry.begin, entry.end - entry.begin);
  }
  const size_t bytes = entries_.size();
  entries_.clear();
  order_.clear();
  if (too_large) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("an example of {} bytes; protobuf's limit is {}", bytes, kLargestMessage));
  }
  return record;
}

}  // namespace millrace
