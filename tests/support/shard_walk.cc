#include "tests/support/shard_walk.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include <zlib.h>

namespace millrace::test {
namespace {

using std::string_view_literals::operator""sv;

constexpr uint64_t kHeaderBytes = 12;
constexpr uint64_t kFooterBytes = 4;
constexpr uint64_t kLongestRecord = uint64_t{1} << 30;  // that readers take by default

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

bool has_masked_crc(std::string_view bytes, std::string_view field) {
  const uint32_t crc = plain_crc32c(bytes);
  const uint32_t masked = (crc >> 15 | crc << 17) + 0xa282ead8U;
  return masked == little_endian(field);
}

void add_fault(ShardWalk& walk, ErrorCode code, uint64_t offset) {
  if (walk.has_fault()) return;
  walk.codes = {code};
  walk.fault_offset = offset;
  walk.num_before = walk.records.size();
}

// Up to the first length that cannot be believed; false when there is one.
bool walk_records(std::string_view bytes, ShardWalk& walk) {
  uint64_t index = 0;
  for (uint64_t at = 0; at < bytes.size(); ++index) {
    const std::string_view rest = bytes.substr(at);
    if (rest.size() < kHeaderBytes) return add_fault(walk, ErrorCode::kTruncated, at), false;
    const uint64_t length = little_endian(rest.substr(0, 8));
    if (!has_masked_crc(rest.substr(0, 8), rest.substr(8, 4))) {
      return add_fault(walk, ErrorCode::kLengthCrc, at), false;
    }
    if (length > kLongestRecord) return add_fault(walk, ErrorCode::kRecordTooLarge, at), false;
    // A length within the limit cannot be told from a file that was cut.
    if (kHeaderBytes + length + kFooterBytes > rest.size()) {
      return add_fault(walk, ErrorCode::kTruncated, at), false;
    }
    const std::string_view payload = rest.substr(kHeaderBytes, length);
    if (has_masked_crc(payload, rest.substr(kHeaderBytes + length, kFooterBytes))) {
      walk.records.push_back({.index = index, .offset = at, .payload = std::string(payload)});
    } else {
      add_fault(walk, ErrorCode::kPayloadCrc, at);
    }
    at += kHeaderBytes + length + kFooterBytes;
  }
  return true;
}

struct Unpacked {
  std::string bytes;
  std::set<ErrorCode> codes;  // of what ended it early. Empty: nothing
};

// All streams or members, one after the other.
Unpacked unpack(std::string_view file, bool gzip) {
  constexpr int kWindowBits = 15;
  constexpr int kGzip = 16;
  Unpacked unpacked;
  while (!file.empty()) {
    z_stream stream{};
    if (inflateInit2(&stream, kWindowBits + (gzip ? kGzip : 0)) != Z_OK) throw std::runtime_error("inflateInit2");
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file.data()));
    stream.avail_in = static_cast<uInt>(file.size());
    int result = Z_OK;
    while (result == Z_OK) {
      std::array<char, 16384> room;
      stream.next_out = reinterpret_cast<Bytef*>(room.data());
      stream.avail_out = room.size();
      result = inflate(&stream, Z_NO_FLUSH);
      unpacked.bytes.append(room.data(), room.size() - stream.avail_out);
    }
    const size_t left = stream.avail_in;
    inflateEnd(&stream);
    if (result == Z_BUF_ERROR) {
      unpacked.codes.insert(ErrorCode::kTruncated);
      // One byte alone does not say what it begins.
      if (file.size() < 2) unpacked.codes.insert(ErrorCode::kCompression);
      return unpacked;
    }
    if (result != Z_STREAM_END) {
      // Inflaters go on for some bytes after damage, one more than another, and what they make of it is no record.
      unpacked.codes = {ErrorCode::kCompression, ErrorCode::kTruncated, ErrorCode::kLengthCrc, ErrorCode::kPayloadCrc,
                        ErrorCode::kRecordTooLarge};
      return unpacked;
    }
    file.remove_prefix(file.size() - left);
  }
  return unpacked;
}

bool begins_like_another_format(std::string_view file) {
  const auto magics = {"\x1f\x8b"sv, "\x28\xb5\x2f\xfd"sv, "\x04\x22\x4d\x18"sv, "\xfd\x37zXZ\0"sv, "BZh"sv};
  return std::any_of(magics.begin(), magics.end(), [file](std::string_view magic) { return file.starts_with(magic); });
}

bool begins_with_a_length(std::string_view file) {
  return file.size() >= kHeaderBytes && has_masked_crc(file.substr(0, 8), file.substr(8, 4));
}

// A stream of zlib, or by chance the length of a record.
bool may_be_zlib(std::string_view file) {
  if (file.size() < 2 || (file[0] & 0x0f) != 8) return false;
  return (static_cast<unsigned char>(file[0]) * 256 + static_cast<unsigned char>(file[1])) % 31 == 0;
}

}  // namespace

uint32_t plain_crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
  }
  return ~crc;
}

ShardWalk walk_shard(std::string_view file, Compression declared) {
  ShardWalk walk;
  if (declared == Compression::kNone) {
    walk_records(file, walk);
    if (!file.empty() && !begins_with_a_length(file)) {
      if (begins_like_another_format(file)) walk.codes = {ErrorCode::kCompression};
      if (may_be_zlib(file)) walk.codes.insert(ErrorCode::kCompression);
    }
  } else {
    const Unpacked unpacked = unpack(file, declared == Compression::kGzip);
    const bool lengths_are_good = walk_records(unpacked.bytes, walk);
    walk.is_unpacked = unpacked.codes.empty();
    if (!walk.is_unpacked) {
      if (!walk.has_fault()) {
        walk.num_before = walk.records.size();
        walk.fault_offset = unpacked.bytes.size();
        walk.codes = unpacked.codes;
      } else if (!lengths_are_good && walk.codes == std::set{ErrorCode::kTruncated}) {
        walk.codes = unpacked.codes;
      } else {
        // A damaged record in front of a place where unpacking breaks: either may be seen first.
        walk.codes.insert(unpacked.codes.begin(), unpacked.codes.end());
      }
    }
  }
  if (!walk.has_fault()) walk.num_before = walk.records.size();
  return walk;
}

}  // namespace millrace::test
