#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "millrace/formats/error.h"

namespace millrace {

/// Numbers and texts one after the other, as bytes. Numbers are base-128 varints (low groups first), signed ones
/// zigzag; fixed ones little-endian.
class ByteWriter {
 public:
  void put(uint64_t number) {
    while (number >= 0x80) {
      bytes_.push_back(static_cast<char>(number | 0x80));
      number >>= 7;
    }
    bytes_.push_back(static_cast<char>(number));
  }
  void put_signed(int64_t number) { put((static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63)); }
  template <typename T>
  void put_fixed(T number) {
    put_raw({reinterpret_cast<const char*>(&number), sizeof number});
  }
  void put_text(std::string_view text) {
    put(text.size());
    put_raw(text);
  }
  void put_raw(std::string_view bytes) { bytes_.append(bytes); }

  size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  std::string bytes_;
};

/// Reads what a `ByteWriter` wrote. Bytes that it cannot have written throw `kParse`; memory is taken only for what is
/// there.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t take() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take_raw(1)[0]);
      // The last bit of 64 is alone in its group.
      if (shift == 63 && byte > 1) break;
      number |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      if (byte == 0 && shift > 0) break;  // a number is written in one way only
      return number;
    }
    refuse();
  }
  /// Throws when it is above `most`.
  uint64_t take(uint64_t most) {
    const uint64_t number = take();
    if (number > most) refuse();
    return number;
  }
  int64_t take_signed() {
    const uint64_t number = take();
    return static_cast<int64_t>(number >> 1) ^ -static_cast<int64_t>(number & 1);
  }
  template <typename T>
  T take_fixed() {
    T number;
    std::memcpy(&number, take_raw(sizeof number).data(), sizeof number);
    return number;
  }
  std::string_view take_text() { return take_raw(take(bytes_.size())); }
  std::string_view take_raw(uint64_t size) {
    if (size > bytes_.size()) refuse();
    const std::string_view raw = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return raw;
  }
  size_t left() const { return bytes_.size(); }
  [[noreturn]] static void refuse() { throw ErrorException(ErrorCode::kParse, "numbers that cannot be"); }

 private:
  std::string_view bytes_;
};

}  // namespace millrace
