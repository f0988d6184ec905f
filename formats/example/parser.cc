#include "formats/example/parser.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "formats/example/varints.h"
#include "formats/utf8.h"

namespace millrace {
namespace {

// Wire types of the protobuf encoding.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kGroupBegin = 3, kGroupEnd = 4, kFixed32 = 5 };

constexpr uint32_t tag(uint32_t field, WireType type) { return field << 3 | type; }

// protobuf's limit on messages and groups within each other.
constexpr int kMaxDepth = 100;

// A message without fields; its data() is not null, as that of a value that was not found is.
constexpr std::string_view kEmptyMessage = "";

/// What is wrong, and at which byte of the record. Thrown inside this file only: damaged records are rare.
struct Malformed {
  std::string what;
  const char* at;
};

/// Reads one message, `depth` messages deep in the record. Never reads at or beyond its end.
class Wire {
 public:
  Wire(std::string_view bytes, int depth) : at_(bytes.data()), end_(bytes.data() + bytes.size()), depth_(depth) {}

  bool done() const { return at_ == end_; }
  const char* at() const { return at_; }
  const char* end() const { return end_; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) throw Malformed{"a varint is cut off", at_};
      const auto byte = static_cast<uint8_t>(*at_++);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      // Excess bits of a tenth byte are dropped, as in every protobuf.
      if (byte < 0x80) return value;
    }
    throw Malformed{"a varint has more than 10 bytes", at_};
  }

  uint32_t read_tag() {
    const char* begin = at_;
    const uint64_t value = varint();
    if (value > UINT32_MAX || at_ - begin > 5) throw Malformed{"a field tag of more than 32 bits", begin};
    if (value >> 3 == 0) throw Malformed{"a field number of 0", begin};
    return static_cast<uint32_t>(value);
  }

  std::string_view delimited() {
    const char* begin = at_;
    const uint64_t size = varint();
    if (at_ - begin > 5) throw Malformed{"a length of more than 5 bytes", begin};
    if (size > static_cast<uint64_t>(end_ - at_)) {
      throw Malformed{fmt::format("a length of {} where {} bytes are left", size, end_ - at_), begin};
    }
    at_ += size;
    return {at_ - size, static_cast<size_t>(size)};
  }

  void skip(uint32_t field_tag) { skip(field_tag, depth_); }

  // The position of the fast varint loop.
  void set_at(const char* at) { at_ = at; }

 private:
  void skip(uint32_t field_tag, int depth) {
    switch (field_tag & 7) {
      case kVarint: varint(); return;
      case kFixed64: skip_bytes(8); return;
      case kDelimited: delimited(); return;
      case kFixed32: skip_bytes(4); return;
      case kGroupBegin: {
        if (depth == kMaxDepth) throw Malformed{"groups are nested too deep", at_};
        const uint32_t group_end = tag(field_tag >> 3, kGroupEnd);
        for (uint32_t inner = read_tag(); inner != group_end; inner = read_tag()) {
          if ((inner & 7) == kGroupEnd) throw Malformed{"a group ends that did not begin", at_};
          skip(inner, depth + 1);
        }
        return;
      }
      default: throw Malformed{"an invalid wire type", at_};
    }
  }

  void skip_bytes(int64_t count) {
    if (end_ - at_ < count) throw Malformed{"a fixed value is cut off", at_};
    at_ += count;
  }

  const char* at_;
  const char* end_;
  int depth_;
};

// How deep each message of an Example is.
constexpr int kExampleDepth = 0;
constexpr int kFeaturesDepth = 1;
constexpr int kEntryDepth = 2;
constexpr int kFeatureDepth = 3;
constexpr int kListDepth = 4;

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
  Wire wire(packed, kListDepth);
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

// A list of numbers, packed, one by one, or both in turn.
template <typename ReadOne, typename ReadPacked>
void read_numbers(std::string_view list, uint32_t one_tag, ReadOne&& read_one, ReadPacked&& read_packed) {
  Wire wire(list, kListDepth);
  while (!wire.done()) {
    const uint32_t field_tag = wire.read_tag();
    if (field_tag == tag(1, kDelimited)) {
      read_packed(wire.delimited());
    } else if (field_tag == one_tag) {
      read_one(wire);
    } else {
      wire.skip(field_tag);
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
  Wire wire(list, kListDepth);
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

/// The list of a Feature message: mostly one piece, more where the same kind occurs again (protobuf joins them).
struct FeatureList {
  std::optional<DType> kind;
  std::string_view piece;
  std::vector<std::string_view> more;
  std::optional<DType> first_kind;  // before another took its place
};

/// Reads the list to `destination`, which has room for `capacity` values of type `dtype`; the number of values found.
int64_t read_list(const FeatureList& list, DType dtype, int64_t capacity, std::byte* destination) {
  const auto run = [&]<typename T>(void (*read)(std::string_view, Output<T>&)) {
    Output<T> out{reinterpret_cast<T*>(destination), capacity};
    read(list.piece, out);
    for (const std::string_view piece : list.more) read(piece, out);
    return out.count;
  };
  switch (dtype) {
    case DType::kInt32: return run(&read_int_list<int32_t>);
    case DType::kInt64: return run(&read_int_list<int64_t>);
    case DType::kFloat32: return run(&read_float_list);
    case DType::kBytes: return run(&read_bytes_list);
  }
  return 0;
}

// What nobody wants, or what something later replaces, must be valid all the same.
void check_list(const FeatureList& list) {
  if (list.kind) read_list(list, *list.kind, 0, nullptr);
}

// Adds what `feature`, a Feature message or a further part of one, says.
void read_feature(std::string_view feature, FeatureList& list) {
  Wire wire(feature, kFeatureDepth);
  while (!wire.done()) {
    const char* begin = wire.at();
    const uint32_t field_tag = wire.read_tag();
    DType kind = DType::kBytes;
    switch (field_tag) {
      case tag(1, kDelimited): kind = DType::kBytes; break;
      case tag(2, kDelimited): kind = DType::kFloat32; break;
      case tag(3, kDelimited): kind = DType::kInt64; break;
      default: wire.skip(field_tag); continue;
    }
    const std::string_view piece = wire.delimited();
    if (list.kind == kind) {
      list.more.push_back(piece);
      continue;
    }
    // The last kind counts. When the first comes back, TensorFlow takes that one's first list without a word.
    if (list.first_kind == kind) throw Malformed{"a list of a kind that was replaced before", begin};
    check_list(list);
    if (list.kind && !list.first_kind) list.first_kind = list.kind;
    list.kind = kind;
    list.piece = piece;
    list.more.clear();
  }
}

/// A map entry: the key, and the Feature message, mostly in one part (protobuf joins more).
struct Entry {
  std::string_view key;
  std::string_view value = kEmptyMessage;
  std::vector<std::string_view> more;

  FeatureList list() const {
    FeatureList list;
    read_feature(value, list);
    for (const std::string_view part : more) read_feature(part, list);
    return list;
  }
};

void check_key(std::string_view key) {
  const size_t valid = valid_utf8_prefix(key);
  if (valid < key.size()) throw Malformed{"a key that is not UTF-8", key.data() + valid};
}

Entry read_entry(std::string_view bytes) {
  Wire wire(bytes, kEntryDepth);
  Entry entry;
  bool value_seen = false;
  while (!wire.done()) {
    const uint32_t field_tag = wire.read_tag();
    if (field_tag == tag(1, kDelimited)) {
      check_key(entry.key);
      entry.key = wire.delimited();
    } else if (field_tag == tag(2, kDelimited)) {
      const std::string_view part = wire.delimited();
      if (!value_seen) {
        entry.value = part;
      } else {
        entry.more.push_back(part);
      }
      value_seen = true;
    } else {
      wire.skip(field_tag);
    }
  }
  return entry;
}

/// The entries of one record that are asked for, by feature. Records with more than a few features need memory.
class WantedEntries {
 public:
  explicit WantedEntries(size_t num_features) : values_(few_, num_features) {
    if (num_features > kFewFeatures) {
      many_.resize(num_features);
      values_ = many_;
    }
  }

  bool has(size_t feature) const { return values_[feature].data() != nullptr; }
  void set(size_t feature, const Entry& entry) {
    values_[feature] = entry.value;
    if (!more_.empty()) std::erase_if(more_, [feature](const auto& part) { return part.first == feature; });
    for (const std::string_view part : entry.more) more_.emplace_back(feature, part);
  }
  FeatureList list(size_t feature) const {
    FeatureList list;
    if (!has(feature)) return list;
    read_feature(values_[feature], list);
    for (const auto& [owner, part] : more_) {
      if (owner == feature) read_feature(part, list);
    }
    return list;
  }

 private:
  static constexpr size_t kFewFeatures = 32;
  std::string_view few_[kFewFeatures];
  std::vector<std::string_view> many_;
  std::span<std::string_view> values_;
  std::vector<std::pair<size_t, std::string_view>> more_;  // further parts, with their feature
};

}  // namespace

ExampleParser::ExampleParser(std::vector<FeatureDescription> features) : features_(std::move(features)) {
  if (features_.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "parse_example: no features are asked for");
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
      reinterpret_cast<To*>(destination)[i] = static_cast<To>(values[i]);
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
  bool overlong = false;
  std::optional<Error> error = parse_fields(record, destinations, true, overlong);
  if (!overlong || error) return error;
  // TensorFlow takes an overlong tag at the top for an unknown field. If it gets an answer that way, it is another one.
  if (!parse_fields(record, destinations, false, overlong)) {
    return Error{.code = ErrorCode::kParse,
                 .message = "an overlong field tag, which TensorFlow takes for an unknown field"};
  }
  return parse_fields(record, destinations, true, overlong);
}

std::optional<Error> ExampleParser::parse_fields(std::string_view record, std::span<std::byte* const> destinations,
                                                 bool with_overlong, bool& overlong) const {
  // Of equal keys the last counts, so values are read when the message has been walked.
  WantedEntries wanted(features_.size());
  const std::string* key = nullptr;  // of the feature being read
  try {
    size_t expected = 0;  // writers keep one order: the next key is mostly the next feature
    Wire example(record, kExampleDepth);
    while (!example.done()) {
      const char* begin = example.at();
      const uint32_t example_tag = example.read_tag();
      if (example_tag != tag(1, kDelimited)) {
        example.skip(example_tag);
        continue;
      }
      const bool tag_is_overlong = example.at() - begin > 1;
      overlong = overlong || tag_is_overlong;
      Wire features(example.delimited(), kFeaturesDepth);
      if (tag_is_overlong && !with_overlong) continue;
      while (!features.done()) {
        const uint32_t features_tag = features.read_tag();
        if (features_tag != tag(1, kDelimited)) {
          features.skip(features_tag);
          continue;
        }
        const Entry entry = read_entry(features.delimited());
        const size_t index = find(entry.key, expected);
        if (index == features_.size()) {
          check_key(entry.key);
          check_list(entry.list());
          continue;
        }
        expected = index + 1;
        if (wanted.has(index)) {
          // An entry without a list is no feature: the one before stays, as in TensorFlow.
          if (!entry.list().kind) continue;
          key = &features_[index].key;
          check_list(wanted.list(index));
          key = nullptr;
        }
        wanted.set(index, entry);
      }
    }
    for (size_t i = 0; i < features_.size(); ++i) {
      const FeatureDescription& feature = features_[i];
      key = &feature.key;
      const FeatureList list = wanted.list(i);
      if (!list.kind) {
        if (std::holds_alternative<std::monostate>(feature.default_values)) {
          return Error{.code = ErrorCode::kMissingFeature,
                       .message = fmt::format("feature '{}' is not in the record and has no default", feature.key)};
        }
        write_default(feature, destinations[i]);
        continue;
      }
      if (*list.kind != feature.stored) {
        return Error{.code = ErrorCode::kParse,
                     .message = fmt::format("feature '{}' holds {}, expected {} at byte {} of the record", feature.key,
                                            to_string(*list.kind), to_string(feature.stored),
                                            list.piece.data() - record.data())};
      }
      const int64_t found = read_list(list, feature.dtype, counts_[i], destinations[i]);
      if (found != counts_[i]) {
        return Error{.code = ErrorCode::kWrongShape,
                     .message = fmt::format("feature '{}' has {} values, shape {} needs {}", feature.key, found,
                                            to_string(feature.shape), counts_[i])};
      }
    }
  } catch (const Malformed& malformed) {
    return Error{.code = ErrorCode::kParse,
                 .message = fmt::format("{}{} at byte {} of the record",
                                        key == nullptr ? "" : fmt::format("feature '{}': ", *key), malformed.what,
                                        malformed.at - record.data())};
  }
  return std::nullopt;
}

size_t ExampleParser::find(std::string_view key, size_t expected) const {
  for (size_t i = expected; i < features_.size(); ++i) {
    if (features_[i].key == key) return i;
  }
  for (size_t i = 0; i < std::min(expected, features_.size()); ++i) {
    if (features_[i].key == key) return i;
  }
  return features_.size();
}

}  // namespace millrace
