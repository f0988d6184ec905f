#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "millrace/formats/error.h"

// protobuf's wire format (https://protobuf.dev/programming-guides/encoding): how the parsers here read it, and what
// writers have in common. Not for users.
namespace millrace::wire {

// Wire types of the protobuf encoding.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kGroupBegin = 3, kGroupEnd = 4, kFixed32 = 5 };

constexpr uint32_t tag(uint32_t field, WireType type) { return field << 3 | type; }

// protobuf's limit on messages and groups within each other.
constexpr int kMaxDepth = 100;

// Parts that one message of a record may be cut into where they are read together: each takes memory.
constexpr size_t kMostParts = size_t{1} << 18;

// A message without fields; its data() is not null, as that of a value that was not found is.
constexpr std::string_view kEmptyMessage = "";

constexpr size_t varint_size(uint64_t value) { return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7; }

inline char* put_varint(uint64_t value, char* at) {
  while (value >= 0x80) {
    *at++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *at++ = static_cast<char>(value);
  return at;
}

inline void append_varint(std::string& out, uint64_t value) {
  char bytes[10];
  out.append(bytes, put_varint(value, bytes));
}

/// What is wrong with a record, and at which byte of it. Thrown inside the parsers only: damaged records are rare.
struct Malformed {
  std::string what;
  const char* at = nullptr;  // null: at no single byte
  ErrorCode code = ErrorCode::kParse;
  bool of_feature = false;  // `what` goes on after the feature's name: "holds int64"

  /// `key`: of the feature that is being read, or null.
  Error to_error(std::string_view record, const std::string* key) const {
    std::string message = key == nullptr ? "" : fmt::format("feature '{}'{} ", *key, of_feature ? "" : ":");
    message += what;
    if (at != nullptr) message += fmt::format(" at byte {} of the record", at - record.data());
    return {.code = code, .message = std::move(message)};
  }
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

}  // namespace millrace::wire
