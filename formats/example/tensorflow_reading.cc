#include "millrace/formats/example/tensorflow_reading.h"

#include <bit>
#include <optional>
#include <variant>

#include "millrace/formats/columnar/counted_allocator.h"

namespace millrace::wire {
namespace {

// TensorFlow compares tags as single bytes: one with more bytes than it needs is an unknown field to it.
bool next_is(const Wire& wire, uint32_t field_tag) {
  return !wire.done() && *wire.at() == static_cast<char>(field_tag);
}

constexpr uint32_t kMessage = tag(1, kDelimited);

// An entry of the map `features` in the order of the record.
struct TensorflowEntry {
  size_t list;
  std::string_view feature;
};

// The wanted entries, or nothing when TensorFlow refuses the record.
std::optional<CountedVector<TensorflowEntry>> read_entries(std::string_view record, const WantedLists& wanted,
                                                           BufferPool& pool) {
  CountedVector<TensorflowEntry> entries{CountedAllocator<TensorflowEntry>(pool)};
  Wire example(record, 0);
  while (!example.done()) {
    if (!next_is(example, kMessage)) {
      const uint32_t unknown = example.read_tag();
      if ((unknown & 7) == kGroupBegin) return std::nullopt;
      example.skip(unknown);
      continue;
    }
    example.read_tag();
    Wire features(example.delimited(), 1);
    while (!features.done()) {
      if (!next_is(features, kMessage)) return std::nullopt;
      features.read_tag();
      Wire entry(features.delimited(), 2);
      std::string_view key;
      std::string_view feature;
      for (int field = 0; field < 2; ++field) {
        if (entry.done()) return std::nullopt;
        const uint32_t field_tag = entry.read_tag();
        if (field_tag != kMessage && field_tag != tag(2, kDelimited)) return std::nullopt;
        (field_tag == kMessage ? key : feature) = entry.delimited();
      }
      if (!entry.done()) return std::nullopt;
      if (const size_t list = wanted.find(key, 0); list < wanted.size()) entries.push_back({list, feature});
    }
  }
  return entries;
}

using Values = std::variant<CountedVector<uint64_t>, CountedVector<uint32_t>, CountedVector<std::string_view>>;

template <typename T>
CountedVector<T> none_of(BufferPool& pool) {
  return CountedVector<T>(CountedAllocator<T>(pool));
}

// The values that TensorFlow takes of a list, whose message `wire` is about to read, or nothing when it refuses it.
std::optional<Values> read_list(Wire& wire, DType kind, BufferPool& pool) {
  Wire list(wire.delimited(), 4);
  if (kind == DType::kBytes) {
    auto strings = none_of<std::string_view>(pool);
    while (!list.done()) {
      if (!next_is(list, kMessage)) return std::nullopt;
      list.read_tag();
      strings.push_back(list.delimited());
    }
    return strings;
  }
  const bool is_int = kind == DType::kInt64;
  auto ints = none_of<uint64_t>(pool);
  auto floats = none_of<uint32_t>(pool);
  const auto read_one = [&](Wire& from) {
    if (is_int) {
      ints.push_back(from.varint());
      return;
    }
    const char* bytes = from.at();
    from.skip(tag(1, kFixed32));
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    floats.push_back(bits);
  };
  if (next_is(list, kMessage)) {
    // What follows a packed run is not looked at.
    list.read_tag();
    Wire packed(list.delimited(), 4);
    while (!packed.done()) read_one(packed);
  } else {
    const uint32_t one = tag(1, is_int ? kVarint : kFixed32);
    while (!list.done()) {
      if (!next_is(list, one)) return std::nullopt;
      list.read_tag();
      read_one(list);
    }
  }
  return is_int ? Values(std::move(ints)) : Values(std::move(floats));
}

Values none(DType kind, BufferPool& pool) {
  if (kind == DType::kInt64) return none_of<uint64_t>(pool);
  if (kind == DType::kFloat32) return none_of<uint32_t>(pool);
  return none_of<std::string_view>(pool);
}

size_t count(const Values& values) {
  return std::visit([](const auto& all) { return all.size(); }, values);
}

// What the entries of our own reader hold, or nothing where there is no list.
std::optional<Values> protobuf_values(const WantedEntries& entries, size_t wanted, DType stored, BufferPool& pool) {
  ValueList list;
  entries.for_each_part(wanted, [&list](std::string_view part) { read_feature(part, 3, list); });
  if (!list.kind) return std::nullopt;
  const int64_t size = count_values(list);
  const auto read = [&]<typename T>(CountedVector<T> values) {
    values.resize(static_cast<size_t>(size));
    read_values(list, stored, size, reinterpret_cast<std::byte*>(values.data()));
    return Values(std::move(values));
  };
  if (stored == DType::kInt64) return read(none_of<uint64_t>(pool));
  if (stored == DType::kFloat32) return read(none_of<uint32_t>(pool));
  return read(none_of<std::string_view>(pool));
}

// Whether a feature of this many values passes.
bool takes_count(const FeatureDescription& feature, size_t values) {
  const auto stride = static_cast<size_t>(num_values(feature.shape));
  if (feature.kind == FeatureDescription::kFixedLen) return values == stride;
  return feature.kind != FeatureDescription::kFixedLenSequence || values % stride == 0;
}

}  // namespace

bool tensorflow_reads_otherwise(std::string_view record, const std::vector<FeatureDescription>& features,
                                const WantedLists& wanted, const WantedEntries& entries, BufferPool& pool,
                                size_t& different) {
  const auto found = read_entries(record, wanted, pool);
  if (!found) return false;
  std::vector<std::optional<Values>> values(wanted.size());
  std::vector<bool> taken(wanted.size(), false);
  // The last entry of a key counts; of a feature of fixed length the last that has a list.
  for (size_t i = found->size(); i-- > 0;) {
    const auto& [list, feature] = (*found)[i];
    if (feature.empty()) {
      if (!wanted[list].fixed_len) taken[list] = true;
      continue;
    }
    Wire wire(feature, 3);
    // Only the first field of a Feature is looked at.
    DType kind = DType::kBytes;
    if (next_is(wire, tag(2, kDelimited))) {
      kind = DType::kFloat32;
    } else if (next_is(wire, tag(3, kDelimited))) {
      kind = DType::kInt64;
    } else if (!next_is(wire, tag(1, kDelimited))) {
      return false;
    }
    wire.read_tag();
    if (taken[list]) continue;
    taken[list] = true;
    if (kind != wanted[list].stored) return false;
    values[list] = read_list(wire, kind, pool);
    if (!values[list]) return false;
  }
  for (size_t f = 0; f < features.size(); ++f) {
    const size_t list = wanted.of_feature(f)[0];
    if (features[f].kind == FeatureDescription::kFixedLen && !values[list]) {
      if (std::holds_alternative<std::monostate>(features[f].default_values)) return false;
    } else if (!takes_count(features[f], values[list] ? count(*values[list]) : 0)) {
      return false;
    }
  }
  for (size_t list = 0; list < wanted.size(); ++list) {
    const DType stored = wanted[list].stored;
    std::optional<Values> ours = protobuf_values(entries, list, stored, pool);
    std::optional<Values>& theirs = values[list];
    // An empty list is no other value than none, but where a default takes its place.
    if (!wanted[list].fixed_len && !ours) ours = none(stored, pool);
    if (!wanted[list].fixed_len && !theirs) theirs = none(stored, pool);
    if (ours != theirs) {
      different = list;
      return true;
    }
  }
  return false;
}

}  // namespace millrace::wire
