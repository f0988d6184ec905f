#include "formats/example/parser.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "formats/example/varints.h"

namespace millrace {
namespace {

// Wire types of the protobuf encoding.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kGroupBegin = 3, kGroupEnd = 4, kFixed32 = 5 };

constexpr uint32_t tag(uint32_t field, WireType type) { return field << 3 | type; }

constexpr int kMaxGroupDepth = 100;

// A message without fields; its data() is not null, as that of a value that was not found is.
constexpr std::string_view kEmptyMessage = "";

/// What is wrong, and at which byte of the record. Thrown inside this file only: damaged records are rare.
struct Malformed {
  std::string what;
  const char* at;
};

/// Reads one piece of a message. Never reads at or beyond its end.
class Wire {
 public:
  Wire(const char* begin, const char* end) : at_(begin), end_(end) {}
  explicit Wire(std::string_view bytes) : Wire(bytes.data(), bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  const char* at() const { return at_; }
  const char* end() const { return end_; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) throw Malformed{"a varint is cut off", at_};
      const auto byte = static_cast<uint8_t>(*at_++);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        if (shift == 63 && byte > 1) throw Malformed{"a varint has more than 64 bits", at_ - 1};
        return value;
      }
    }
    throw Malformed{"a varint has more than 10 bytes", at_};
  }

  uint32_t read_tag() {
    const char* begin = at_;
    const uint64_t value = varint();
    if (value > UINT32_MAX || value >> 3 == 0 || at_ - begin > 5) throw Malformed{"an invalid field tag", begin};
    return static_cast<uint32_t>(value);
  }

  std::string_view delimited() {
    const char* begin = at_;
    const uint64_t size = varint();
    if (size > static_cast<uint64_t>(end_ - at_)) {
      throw Malformed{fmt::format("a length of {} where {} bytes are left", size, end_ - at_), begin};
    }
    at_ += size;
    return {at_ - size, static_cast<size_t>(size)};
  }

  void skip(uint32_t field_tag, int depth = 0) {
    switch (field_tag & 7) {
      case kVarint: varint(); return;
      case kFixed64: skip_bytes(8); return;
      case kDelimited: delimited(); return;
      case kFixed32: skip_bytes(4); return;
      case kGroupBegin: {
        if (depth == kMaxGroupDepth) throw Malformed{"groups are nested too deep", at_};
        for (uint32_t inner = read_tag(); inner != (field_tag | kGroupEnd); inner = read_tag()) {
          if ((inner & 7) == kGroupEnd) throw Malformed{"a group ends that did not begin", at_};
          skip(inner, depth + 1);
        }
        return;
      }
      default: throw Malformed{"an invalid wire type", at_};
    }
  }

  // The position of the fast varint loop.
  void set_at(const char* at) { at_ = at; }

 private:
  void skip_bytes(int64_t count) {
    if (end_ - at_ < count) throw Malformed{"a fixed value is cut off", at_};
    at_ += count;
  }

  const char* at_;
  const char* end_;
};

/// Where the values of one feature go.
template <typename T>
struct Output {
  T* values;
  int64_t capacity;
  int64_t count = 0;  // found, also beyond the capacity
};

template <typename T>
void store_int(Output<T>& out, uint64_t value, const char* at) {
  if (out.count < out.capacity) {
    out.values[out.count] = static_cast<T>(value);
    if constexpr (sizeof(T) == 4) {
      if (static_cast<int64_t>(value) != static_cast<int32_t>(value)) {
        throw Malformed{fmt::format("value {} does not fit int32", static_cast<int64_t>(value)), at};
      }
    }
  }
  ++out.count;
}

template <typename T>
void read_packed_ints(std::string_view packed, Output<T>& out) {
  constexpr int64_t kVarintsAtOnce = 8;
  Wire wire(packed);
  T* values = out.values + std::min(out.count, out.capacity);
  VarintRun<T> run = {.at = reinterpret_cast<const uint8_t*>(wire.at()),
                      .end = reinterpret_cast<const uint8_t*>(wire.end()),
                      .values = values,
                      .last = out.values + out.capacity};
  // Long varints (negative numbers) come one at a time in between.
  while (true) {
    decode_varints(run);
    out.count += run.values - values;
    wire.set_at(reinterpret_cast<const char*>(run.at));
    if (wire.done() || run.last - run.values < kVarintsAtOnce) break;
    const char* begin = wire.at();
    store_int(out, wire.varint(), begin);
    run.at = reinterpret_cast<const uint8_t*>(wire.at());
    values = ++run.values;
  }
  while (!wire.done()) {
    const char* begin = wire.at();
    store_int(out, wire.varint(), begin);
  }
}

void read_packed_floats(std::string_view packed, Output<float>& out) {
  if (packed.size() % sizeof(float) != 0) {
    throw Malformed{fmt::format("a packed float list of {} bytes", packed.size()), packed.data()};
  }
  const auto count = static_cast<int64_t>(packed.size() / sizeof(float));
  const int64_t room = std::min(count, std::max<int64_t>(0, out.capacity - out.count));
  if (room > 0) std::memcpy(out.values + out.count, packed.data(), static_cast<size_t>(room) * sizeof(float));
  out.count += count;
}

// A list of numbers, packed or not. After a packed run nothing may follow: TensorFlow would drop it without a word.
template <typename ReadOne, typename ReadPacked>
void read_numbers(std::string_view list, uint32_t one_tag, ReadOne&& read_one, ReadPacked&& read_packed) {
  Wire wire(list);
  bool packed_seen = false;
  while (!wire.done()) {
    const char* begin = wire.at();
    const uint32_t field_tag = wire.read_tag();
    if (field_tag != one_tag && field_tag != tag(1, kDelimited)) {
      wire.skip(field_tag);
      continue;
    }
    if (packed_seen) throw Malformed{"a list goes on after its packed part", begin};
    if (field_tag == one_tag) {
      read_one(wire);
    } else {
      packed_seen = true;
      read_packed(wire.delimited());
    }
  }
}

template <typename T>
void read_int_list(std::string_view list, Output<T>& out) {
  read_numbers(
      list, tag(1, kVarint),
      [&out](Wire& wire) {
        const char* begin = wire.at();
        store_int(out, wire.varint(), begin);
      },
      [&out](std::string_view packed) { read_packed_ints(packed, out); });
}

void read_float_list(std::string_view list, Output<float>& out) {
  read_numbers(
      list, tag(1, kFixed32),
      [&out](Wire& wire) {
        const char* begin = wire.at();
        wire.skip(tag(1, kFixed32));
        read_packed_floats({begin, sizeof(float)}, out);
      },
      [&out](std::string_view packed) { read_packed_floats(packed, out); });
}

void read_bytes_list(std::string_view list, Output<std::string_view>& out) {
  Wire wire(list);
  while (!wire.done()) {
    const uint32_t field_tag = wire.read_tag();
    if (field_tag != tag(1, kDelimited)) {
      wire.skip(field_tag);
      continue;
    }
    const std::string_view value = wire.delimited();
    if (out.count < out.capacity) out.values[out.count] = value;
    ++out.count;
  }
}

/// The one list of a Feature message.
struct FeatureList {
  DType kind = DType::kInt64;
  std::string_view bytes;
  bool present = false;
};

FeatureList read_feature(std::string_view feature) {
  Wire wire(feature);
  FeatureList list;
  while (!wire.done()) {
    const char* begin = wire.at();
    const uint32_t field_tag = wire.read_tag();
    if (field_tag != tag(1, kDelimited) && field_tag != tag(2, kDelimited) && field_tag != tag(3, kDelimited)) {
      wire.skip(field_tag);
      continue;
    }
    if (list.present) throw Malformed{"a feature with more than one list", begin};
    list.present = true;
    list.kind = field_tag == tag(1, kDelimited)   ? DType::kBytes
                : field_tag == tag(2, kDelimited) ? DType::kFloat32
                                                  : DType::kInt64;
    list.bytes = wire.delimited();
  }
  return list;
}

/// Reads the list to `destination`; the number of values found.
int64_t read_list(const FeatureDescription& feature, int64_t capacity, std::string_view list, std::byte* destination) {
  const auto run = [&]<typename T>(void (*read)(std::string_view, Output<T>&)) {
    Output<T> out{reinterpret_cast<T*>(destination), capacity};
    read(list, out);
    return out.count;
  };
  switch (feature.dtype) {
    case DType::kInt32: return run(&read_int_list<int32_t>);
    case DType::kInt64: return run(&read_int_list<int64_t>);
    case DType::kFloat32: return run(&read_float_list);
    case DType::kBytes: return run(&read_bytes_list);
  }
  return 0;
}

}  // namespace

ExampleParser::ExampleParser(std::vector<FeatureDescription> features) : features_(std::move(features)) {
  for (size_t i = 0; i < features_.size(); ++i) {
    features_[i].check();
    for (size_t j = 0; j < i; ++j) {
      if (features_[j].key == features_[i].key) {
        throw ErrorException(ErrorCode::kInvalidArgument,
                             fmt::format("parse_example: feature '{}' is asked for twice", features_[i].key));
      }
    }
    counts_.push_back(num_values(features_[i].shape));
  }
}

void ExampleParser::write_default(const FeatureDescription& feature, std::byte* destination) const {
  const auto count = static_cast<size_t>(num_values(feature.shape));
  const auto write = [&]<typename To>(const auto& values, To*) {
    for (size_t i = 0; i < count; ++i) {
      reinterpret_cast<To*>(destination)[i] = static_cast<To>(values[values.size() == 1 ? 0 : i]);
    }
  };
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&feature.default_values)) {
    feature.dtype == DType::kInt32 ? write(*ints, static_cast<int32_t*>(nullptr))
                                   : write(*ints, static_cast<int64_t*>(nullptr));
  } else if (const auto* floats = std::get_if<std::vector<float>>(&feature.default_values)) {
    write(*floats, static_cast<float*>(nullptr));
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&feature.default_values)) {
    write(*strings, static_cast<std::string_view*>(nullptr));
  }
}

std::optional<Error> ExampleParser::parse(std::string_view record, std::span<std::byte* const> destinations) const {
  // Of equal keys the last counts, so values are read when the message has been walked. Most records hold few features.
  constexpr size_t kFewFeatures = 32;
  std::string_view few[kFewFeatures];
  std::vector<std::string_view> many;
  std::span<std::string_view> values(few, features_.size());
  if (features_.size() > kFewFeatures) {
    many.resize(features_.size());
    values = many;
  }
  const FeatureDescription* current = nullptr;
  try {
    size_t expected = 0;  // writers keep one order: the next key is mostly the next feature
    Wire example(record);
    while (!example.done()) {
      const uint32_t example_tag = example.read_tag();
      if (example_tag != tag(1, kDelimited)) {
        example.skip(example_tag);
        continue;
      }
      Wire features(example.delimited());
      while (!features.done()) {
        const uint32_t features_tag = features.read_tag();
        if (features_tag != tag(1, kDelimited)) {
          features.skip(features_tag);
          continue;
        }
        Wire entry(features.delimited());
        std::string_view key;
        std::string_view value = kEmptyMessage;
        bool value_seen = false;
        while (!entry.done()) {
          const char* begin = entry.at();
          const uint32_t entry_tag = entry.read_tag();
          if (entry_tag == tag(1, kDelimited)) {
            key = entry.delimited();
          } else if (entry_tag == tag(2, kDelimited)) {
            if (value_seen) throw Malformed{"a map entry with two values", begin};
            value = entry.delimited();
            value_seen = true;
          } else {
            entry.skip(entry_tag);
          }
        }
        for (size_t tried = 0; tried < features_.size(); ++tried) {
          const size_t index = expected;
          expected = expected + 1 == features_.size() ? 0 : expected + 1;
          if (features_[index].key == key) {
            values[index] = value;
            break;
          }
        }
      }
    }
    for (size_t i = 0; i < features_.size(); ++i) {
      current = &features_[i];
      const FeatureList list = values[i].data() == nullptr ? FeatureList{} : read_feature(values[i]);
      if (!list.present) {
        if (std::holds_alternative<std::monostate>(current->default_values)) {
          return Error{.code = ErrorCode::kMissingFeature,
                       .message = fmt::format("feature '{}' is not in the record and has no default", current->key)};
        }
        write_default(*current, destinations[i]);
        continue;
      }
      if (list.kind != current->stored) {
        return Error{.code = ErrorCode::kParse,
                     .message = fmt::format("feature '{}' holds {}, expected {}", current->key, to_string(list.kind),
                                            to_string(current->stored))};
      }
      const int64_t found = read_list(*current, counts_[i], list.bytes, destinations[i]);
      if (found != counts_[i]) {
        return Error{.code = ErrorCode::kWrongShape,
                     .message = fmt::format("feature '{}' has {} values, shape {} needs {}", current->key, found,
                                            to_string(current->shape), counts_[i])};
      }
    }
  } catch (const Malformed& malformed) {
    return Error{.code = ErrorCode::kParse,
                 .message = fmt::format("{}{} at byte {} of the record",
                                        current == nullptr ? "" : fmt::format("feature '{}': ", current->key),
                                        malformed.what, malformed.at - record.data())};
  }
  return std::nullopt;
}

}  // namespace millrace
