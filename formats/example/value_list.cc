#include "millrace/formats/example/value_list.h"

#include <algorithm>
#include <cstring>

#include "millrace/formats/example/varints.h"
#include "millrace/formats/example/wire.h"

namespace millrace::wire {
namespace {

/// Where the values of one feature go.
template <typename T>
struct Output {
  T* values;
  int64_t capacity;
  int depth;          // of the list in the record
  int64_t count = 0;  // found, also beyond the capacity
  bool after_packed = false;
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
  Wire wire(packed, out.depth);
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
template <typename T, typename ReadOne, typename ReadPacked>
void read_numbers(std::string_view list, uint32_t one_tag, Output<T>& out, ReadOne&& read_one,
                  ReadPacked&& read_packed) {
  Wire wire(list, out.depth);
  bool packed_seen = false;
  while (!wire.done()) {
    const uint32_t field_tag = wire.read_tag();
    if (field_tag == tag(1, kDelimited)) {
      const int64_t before = out.count;
      read_packed(wire.delimited());
      if (packed_seen && out.count > before) out.after_packed = true;
      packed_seen = true;
    } else if (field_tag == one_tag) {
      read_one(wire);
      if (packed_seen) out.after_packed = true;
    } else {
      wire.skip(field_tag);
    }
  }
}

template <typename T>
void read_int_list(std::string_view list, Output<T>& out) {
  read_numbers(
      list, tag(1, kVarint), out,
      [&out](Wire& wire) {
        const char* begin = wire.at();
        store_int(out, wire.varint(), begin);
      },
      [&out](std::string_view packed) { read_packed_ints(packed, out); });
}

void read_float_list(std::string_view list, Output<float>& out) {
  read_numbers(
      list, tag(1, kFixed32), out,
      [&out](Wire& wire) {
        const char* begin = wire.at();
        wire.skip(tag(1, kFixed32));
        read_packed_floats({begin, sizeof(float)}, out);
      },
      [&out](std::string_view packed) { read_packed_floats(packed, out); });
}

void read_bytes_list(std::string_view list, Output<std::string_view>& out) {
  Wire wire(list, out.depth);
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

int64_t count_values(DType kind, std::string_view list, int depth) {
  const uint32_t one_tag = tag(1, kind == DType::kInt64 ? kVarint : kind == DType::kFloat32 ? kFixed32 : kDelimited);
  Wire wire(list, depth);
  int64_t count = 0;
  while (!wire.done()) {
    const uint32_t field_tag = wire.read_tag();
    if (field_tag == tag(1, kDelimited) && kind != DType::kBytes) {
      count += count_packed(wire.delimited(), kind);
    } else {
      wire.skip(field_tag);
      if (field_tag == one_tag) ++count;
    }
  }
  return count;
}

}  // namespace

void read_feature(std::string_view feature, int depth, ValueList& list) {
  list.depth = depth + 1;
  Wire wire(feature, depth);
  while (!wire.done()) {
    const uint32_t field_tag = wire.read_tag();
    DType kind = DType::kBytes;
    switch (field_tag) {
      case tag(1, kDelimited): kind = DType::kBytes; break;
      case tag(2, kDelimited): kind = DType::kFloat32; break;
      case tag(3, kDelimited): kind = DType::kInt64; break;
      default: wire.skip(field_tag); continue;
    }
    const std::string_view piece = wire.delimited();
    list.several = list.kind.has_value();
    if (list.kind == kind) {
      if (list.more.size() == kMostParts) throw Malformed{"a list in more parts than are read", piece.data()};
      list.more.push_back(piece);
      continue;
    }
    // The last kind counts.
    check_values(list);
    list.kind = kind;
    list.piece = piece;
    list.more.clear();
  }
}

ValuesFound read_values(const ValueList& list, DType dtype, int64_t capacity, std::byte* destination) {
  const auto run = [&]<typename T>(void (*read)(std::string_view, Output<T>&)) {
    Output<T> out{reinterpret_cast<T*>(destination), capacity, list.depth};
    read(list.piece, out);
    for (const std::string_view piece : list.more) read(piece, out);
    return ValuesFound{out.count, out.after_packed};
  };
  switch (dtype) {
    case DType::kInt32: return run(&read_int_list<int32_t>);
    case DType::kInt64: return run(&read_int_list<int64_t>);
    case DType::kFloat32: return run(&read_float_list);
    case DType::kBytes: return run(&read_bytes_list);
    case DType::kUint8: break;  // no list has them
  }
  return {};
}

int64_t count_values(const ValueList& list) {
  if (!list.kind) return 0;
  int64_t count = count_values(*list.kind, list.piece, list.depth);
  for (const std::string_view piece : list.more) count += count_values(*list.kind, piece, list.depth);
  return count;
}

std::optional<std::string_view> packed_run(std::string_view feature, DType kind) {
  constexpr int kAnyDepth = 0;  // nothing is skipped
  Wire message(feature, kAnyDepth);
  if (message.done()) return feature;
  if (message.read_tag() != tag(kind == DType::kInt64 ? 3 : 2, kDelimited)) return std::nullopt;
  Wire list(message.delimited(), kAnyDepth);
  if (!message.done()) return std::nullopt;
  if (list.done()) return std::string_view();
  if (list.read_tag() != tag(1, kDelimited)) return std::nullopt;
  const std::string_view run = list.delimited();
  return list.done() ? std::optional(run) : std::nullopt;
}

int64_t count_packed(std::string_view run, DType kind) {
  return static_cast<int64_t>(kind == DType::kInt64 ? count_varints(run) : run.size() / sizeof(float));
}

int64_t read_packed(std::string_view run, DType dtype, int64_t capacity, std::byte* destination) {
  const auto read = [&]<typename T>(void (*read_run)(std::string_view, Output<T>&)) {
    Output<T> out{reinterpret_cast<T*>(destination), capacity, /*depth=*/0};
    read_run(run, out);
    return out.count;
  };
  switch (dtype) {
    case DType::kInt32: return read(&read_packed_ints<int32_t>);
    case DType::kInt64: return read(&read_packed_ints<int64_t>);
    case DType::kFloat32: return read(&read_packed_floats);
    case DType::kBytes:
    case DType::kUint8: break;
  }
  return 0;
}

void check_values(const ValueList& list) {
  if (list.kind) read_values(list, *list.kind, 0, nullptr);
}

}  // namespace millrace::wire
